// How a part of a communicator writes down what it keeps, and reads it back.
//
// Numbers are written one by one, as the machine has them, so that no byte between the fields of a
// structure is written. A reader that fails once goes on to give zeros: who reads looks at is_ok()
// at the end, and at counts before memory is taken by them.
#ifndef NCCL_PLUGIN_SESSION_STATE_STATE_BYTES_H_
#define NCCL_PLUGIN_SESSION_STATE_STATE_BYTES_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ringpress::nccl_plugin {

static_assert(std::endian::native == std::endian::little, "states are little-endian");

template <typename Number>
concept StateNumber = std::is_arithmetic_v<Number> || std::is_enum_v<Number>;

class StateWriter {
 public:
  virtual ~StateWriter() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;

  template <StateNumber Number>
  void put(Number number) {
    write(std::as_bytes(std::span(&number, 1)));
  }
  /// Without their count.
  template <StateNumber Number>
  void put_all(std::span<const Number> numbers) {
    write(std::as_bytes(numbers));
  }
  template <StateNumber Number>
  void put_list(const std::vector<Number>& numbers) {
    put<std::uint64_t>(numbers.size());
    put_all(std::span<const Number>(numbers));
  }
  void put_text(std::string_view text) {
    put<std::uint64_t>(text.size());
    put_all(std::span(text));
  }
};

class StateReader {
 public:
  virtual ~StateReader() = default;
  /// Bytes that are still to come.
  virtual std::uint64_t left() const = 0;

  bool is_ok() const { return is_ok_; }
  /// What was read makes no sense.
  void fail() { is_ok_ = false; }
  /// Fails unless `holds`.
  void require(bool holds) { is_ok_ = is_ok_ && holds; }

  void read(std::span<std::byte> to) {
    require(to.size() <= left());
    if (is_ok_) is_ok_ = read_some(to);
    if (!is_ok_ && !to.empty()) std::memset(to.data(), 0, to.size());
  }
  void skip(std::uint64_t bytes) {
    std::byte piece[256];
    for (; is_ok_ && bytes > 0; bytes -= std::min<std::uint64_t>(bytes, sizeof piece)) {
      read(std::span(piece).first(std::min<std::uint64_t>(bytes, sizeof piece)));
    }
  }
  template <StateNumber Number>
  Number get() {
    if constexpr (std::is_same_v<Number, bool>) {
      return get_below(2) != 0;
    } else {
      Number number{};
      read(std::as_writable_bytes(std::span(&number, 1)));
      return number;
    }
  }
  /// A number of one byte that is below `end`: such as an enumerator.
  std::uint8_t get_below(unsigned end) {
    const auto number = get<std::uint8_t>();
    require(number < end);
    return is_ok_ ? number : std::uint8_t{0};
  }
  /// How many things come, each of at least `bytes`, `most` of them.
  std::size_t get_count(std::size_t bytes, std::uint64_t most = UINT64_MAX) {
    const auto count = get<std::uint64_t>();
    require(count <= most && count <= left() / bytes);
    return is_ok_ ? static_cast<std::size_t>(count) : 0;
  }
  template <StateNumber Number>
  std::vector<Number> get_list(std::uint64_t most = UINT64_MAX) {
    std::vector<Number> numbers(get_count(sizeof(Number), most));
    read(std::as_writable_bytes(std::span(numbers)));
    return numbers;
  }
  std::string get_text(std::uint64_t most) {
    std::string text(get_count(1, most), '\0');
    read(std::as_writable_bytes(std::span(text)));
    return text;
  }

 protected:
  /// No more than are left. False: they cannot be read.
  virtual bool read_some(std::span<std::byte> to) = 0;

 private:
  bool is_ok_ = true;
};

/// Keeps what is written.
class StateBytes final : public StateWriter {
 public:
  void write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads bytes that outlive it.
class StateView final : public StateReader {
 public:
  explicit StateView(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t left() const override { return bytes_.size(); }

 protected:
  bool read_some(std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), bytes_.data(), to.size());
    bytes_ = bytes_.subspan(to.size());
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STATE_STATE_BYTES_H_
