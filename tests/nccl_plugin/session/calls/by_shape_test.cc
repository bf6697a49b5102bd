#include "nccl_plugin/session/calls/by_shape.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "nccl_plugin/session/calls/known_classes.h"
#include "nccl_plugin/session/calls/recurrences.h"
#include "nccl_plugin/session/calls/tensor_call.h"

namespace ringpress::nccl_plugin {
namespace {

using Numbers = ByShape<std::uint64_t>;

TensorCall call_of(std::size_t count) {
  TensorCall call;
  call.count = count;
  return call;
}

std::uint64_t number_of(StateReader& from) {
  return from.get<std::uint64_t>();
}

TEST(ByShape, TellsKindCountTypeAndOperationApart) {
  Numbers numbers;
  std::vector<TensorCall> calls(5, call_of(1000));
  calls[1].kind = CollectiveKind::kReduceScatter;
  calls[2].count = 1001;
  calls[3].dtype = DType::kBfloat16;
  calls[4].op = ReduceOp::kAvg;
  for (std::size_t i = 0; i < calls.size(); ++i) numbers.of(calls[i]) = i;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].address = &calls[i];
    ASSERT_NE(numbers.find(calls[i]), nullptr);
    EXPECT_EQ(*numbers.find(calls[i]), i);
  }
  EXPECT_EQ(numbers.find(call_of(1002)), nullptr);
  EXPECT_EQ(numbers.of(call_of(1002)), 0u);
}

TEST(ByShape, ForgetsAllWhenOneMoreComes) {
  Numbers numbers;
  for (std::size_t count = 1; count <= Numbers::kMostShapes; ++count) {
    numbers.of(call_of(count)) = count;
  }
  ++numbers.of(call_of(7));
  EXPECT_EQ(*numbers.find(call_of(7)), 8u);
  EXPECT_EQ(*numbers.find(call_of(8)), 8u);
  numbers.of(call_of(0)) = 1;
  EXPECT_EQ(*numbers.find(call_of(0)), 1u);
  EXPECT_EQ(numbers.find(call_of(7)), nullptr);
}

TEST(ByShape, IsSavedAndLoaded) {
  Numbers numbers;
  for (std::size_t count = 1; count <= 50; ++count) numbers.of(call_of(count)) = 3 * count;
  StateBytes saved;
  numbers.save(saved);

  Numbers loaded;
  loaded.of(call_of(1000)) = 1;
  StateView view(saved.bytes());
  loaded.load(view, number_of);
  EXPECT_TRUE(view.is_ok());
  EXPECT_EQ(view.left(), 0u);
  EXPECT_EQ(loaded.find(call_of(1000)), nullptr);
  StateBytes again;
  loaded.save(again);
  EXPECT_EQ(again.bytes(), saved.bytes());

  // Cut anywhere, it is refused.
  for (std::size_t size = 0; size < saved.bytes().size(); ++size) {
    StateView cut(std::span(saved.bytes()).first(size));
    loaded.load(cut, number_of);
    EXPECT_FALSE(cut.is_ok()) << size;
  }
}

TEST(ByShape, RefusesTypesThatThereAreNot) {
  Numbers numbers;
  numbers.of(call_of(1)) = 1;
  StateBytes saved;
  numbers.save(saved);
  for (const std::size_t at : {8, 17, 18}) {  // Kind, type and operation.
    std::vector<std::byte> bytes = saved.bytes();
    bytes[at] = std::byte{99};
    StateView view(bytes);
    numbers.load(view, number_of);
    EXPECT_FALSE(view.is_ok()) << at;
  }
}

/// States of earlier versions are loaded: the bytes of a record stay as they are.
TEST(ByShape, BytesOfStates) {
  const auto bytes_of = [](std::initializer_list<int> numbers) {
    std::vector<std::byte> bytes;
    for (const int number : numbers) bytes.push_back(static_cast<std::byte>(number));
    return bytes;
  };
  PlanRequest request;
  request.kind = CollectiveKind::kReduceScatter;
  request.count = 0x010203;
  request.dtype = DType::kBfloat16;
  request.op = ReduceOp::kAvg;
  request.world = 2;
  const int kind = static_cast<int>(request.kind), dtype = static_cast<int>(request.dtype),
            op = static_cast<int>(request.op);

  Recurrences recurrences;
  recurrences.count(request);
  StateBytes counts;
  recurrences.save(counts);
  EXPECT_EQ(counts.bytes(),
            bytes_of({1, 0, 0, 0, 0, 0, 0, 0, kind, 3, 2, 1, 0, 0, 0, 0, 0, dtype, op,  //
                      1, 0, 0, 0, 0, 0, 0, 0}));

  KnownClasses known;
  known.set({request.kind, request.count, request.dtype, request.op}, CallClass::kNamed);
  StateBytes classes;
  known.save(classes);
  EXPECT_EQ(classes.bytes(),
            bytes_of({1, 0, 0, 0, 0, 0, 0, 0, kind, 3, 2, 1, 0, 0, 0, 0, 0, dtype, op, 5}));
}

TEST(KnownClasses, AreUnknownUntilSet) {
  KnownClasses known;
  EXPECT_EQ(known.of(call_of(1)), CallClass::kUnknown);
  known.set(call_of(1), CallClass::kGradient);
  EXPECT_EQ(known.of(call_of(1)), CallClass::kGradient);
  StateBytes saved;
  known.save(saved);
  std::vector<std::byte> bytes = saved.bytes();
  StateView view(bytes);
  known.load(view);
  EXPECT_TRUE(view.is_ok());
  EXPECT_EQ(known.of(call_of(1)), CallClass::kGradient);
  bytes.back() = static_cast<std::byte>(kCallClassCount);
  StateView wrong(bytes);
  known.load(wrong);
  EXPECT_FALSE(wrong.is_ok());
}

}  // namespace
}  // namespace ringpress::nccl_plugin
