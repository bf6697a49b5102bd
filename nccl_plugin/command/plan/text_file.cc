#include "nccl_plugin/command/plan/text_file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace ringpress::nccl_plugin::command {

Result<std::string> read_text_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr) return Status(Code::kInvalidArgument, std::strerror(errno));
  std::string text;
  std::array<char, 65536> block;
  std::size_t read = 0;
  while ((read = std::fread(block.data(), 1, block.size(), file.get())) > 0) {
    text.append(block.data(), read);
    if (text.size() > kMostTextBytes) {
      return Status(Code::kInvalidArgument,
                    "more than " + std::to_string(kMostTextBytes >> 20) + " MiB");
    }
  }
  if (std::ferror(file.get()) != 0) return Status(Code::kInvalidArgument, std::strerror(errno));
  return text;
}

}  // namespace ringpress::nccl_plugin::command
