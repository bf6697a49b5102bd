// What pictures say.
#ifndef PERF_RINGPRESS_SVG_TEXT_H_
#define PERF_RINGPRESS_SVG_TEXT_H_

#include <string>

namespace ringpress::perf {

/// As text between the tags of an SVG: names come from files that people write.
std::string escaped(const std::string& text);

}  // namespace ringpress::perf

#endif  // PERF_RINGPRESS_SVG_TEXT_H_
