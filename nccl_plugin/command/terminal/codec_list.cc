#include "nccl_plugin/command/terminal/codec_list.h"

#include <algorithm>
#include <cstddef>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::terminal {

std::vector<std::string> split_codecs(const std::string& option, const std::string& text) {
  const std::string where = option + " " + text + ": ";
  std::vector<std::string> specifications;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty()) throw Error(where + "an empty setting");
    const std::size_t equals = part.find('=');
    const bool continues = equals != std::string::npos && equals < part.find(':');
    if (continues && specifications.empty()) {
      throw Error(where + "\"" + part + "\" follows no codec");
    }
    if (continues) {
      specifications.back() += "," + part;
    } else {
      specifications.push_back(part);
    }
  }
  return specifications;
}

}  // namespace ringpress::terminal
