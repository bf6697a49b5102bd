// ring and sra against the contract of Collective.
#include "tests/contract/collective_contract_tests.h"

namespace ringpress::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Ring, CollectiveContract,
                         ::testing::Values(CollectiveUnderTest{traits_of(Algorithm::kRing)}));
INSTANTIATE_TEST_SUITE_P(Sra, CollectiveContract,
                         ::testing::Values(CollectiveUnderTest{traits_of(Algorithm::kSra)}));

}  // namespace
}  // namespace ringpress::testing
