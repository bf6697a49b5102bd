// Feeds arbitrary text to the parser of RINGPRESS_RULES, and what it accepts to a planner, with the
// text's first line as the communicator's name.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "nccl_plugin/session/rules/rules.h"
#include "tuner/factory.h"

namespace {

using namespace ringpress;

void require(bool holds) {
  if (!holds) std::abort();
}

void require_plan(const Planner& planner, std::size_t count) {
  PlanRequest request;
  request.count = count;
  request.world = 2;
  request.crosses_hosts = true;
  request.call_class = CallClass::kGradient;
  const Decision decision = planner.plan(request);
  require(decision.is_exact() == (decision.why.reason != ExactReason::kNone));
  require(decision.is_exact() != to_text(decision.why).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto rules = nccl_plugin::parse_rules(text);
  if (!rules.is_ok()) {
    require(rules.status().code() == Code::kInvalidArgument);
    require(rules.status().message().starts_with("line "));
    return 0;
  }
  for (const Rule& rule : rules.value()) {
    require(rule.line > 0 && rule.min_bytes <= rule.max_bytes);
    require(rule.nodes >= -1 && rule.ranks >= -1);
  }
  Settings settings = parse_settings({}, nullptr);
  settings.rule_list = std::move(rules).value();
  settings.comm_name = std::string(text.substr(0, text.find('\n')));
  const auto planner = tuner::make_planner(settings);
  for (const std::size_t count : {1UL, 70000UL, 100000000UL}) require_plan(*planner, count);
  return 0;
}
