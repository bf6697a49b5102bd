#include "compress_kernels/factory_table.h"

#include <string_view>

#include "ringpress/internal/export.h"

namespace ringpress::compress_kernels {
namespace {

constexpr FactoryTable kFactoryTable = {
#define RINGPRESS_MEMBER(NAME) &::ringpress::compress_kernels::NAME,
    RINGPRESS_FACTORY_FUNCTIONS(RINGPRESS_MEMBER)
#undef RINGPRESS_MEMBER
};

}  // namespace
}  // namespace ringpress::compress_kernels

/// For programs that lie beside this library (factory_table.h).
extern "C" RINGPRESS_EXPORT const ringpress::compress_kernels::FactoryTable* ringpressOpenFactory(
    const char* version, unsigned long long layout) {
  using namespace ringpress::compress_kernels;
  const bool is_same = version != nullptr && std::string_view(version) == RINGPRESS_VERSION &&
                       layout == kFactoryLayout;
  return is_same ? &kFactoryTable : nullptr;
}
