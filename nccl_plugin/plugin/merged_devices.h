// Devices of the next plugin that NCCL merges: once for CollNet and once for the network.
//
// NCCL lists the devices of CollNet first. Where a plugin can merge devices, it then asks for those
// that belong together, asks anew how many there are, and takes the added ones in place of their
// parts. Then it does the same with the network, by the same rules, and joins what has one name and
// one index. A CollNet that cannot merge keeps parts that the network no longer has, and NCCL does
// without it. So CollNet has the next plugin merge, and what that has made is given to the network
// when it asks for the same. Until then the network does not see it.
#ifndef NCCL_PLUGIN_PLUGIN_MERGED_DEVICES_H_
#define NCCL_PLUGIN_PLUGIN_MERGED_DEVICES_H_

#include <mutex>
#include <optional>
#include <vector>

namespace ringpress::nccl_plugin::plugin {

/// Those made for CollNet that the network has not asked for. Any thread.
class MergedDevices {
 public:
  using Parts = std::vector<int>;

  void add(Parts parts, int device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    unseen_.push_back({std::move(parts), device});
  }

  /// The one that the network asks for, which it sees from now on. Nothing if it is not the next of
  /// those that were made: it then sees all of them, so that the one it gets is the last.
  std::optional<int> take(const Parts& parts) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (unseen_.empty() || unseen_.front().parts != parts) {
      unseen_.clear();
      return std::nullopt;
    }
    const int device = unseen_.front().device;
    unseen_.erase(unseen_.begin());
    return device;
  }

  /// Of `count` devices, those that the network sees: the last ones are not seen.
  int seen(int count) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return count - static_cast<int>(unseen_.size());
  }

 private:
  struct Merged {
    Parts parts;
    int device = 0;
  };
  mutable std::mutex mutex_;
  std::vector<Merged> unseen_;
};

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_MERGED_DEVICES_H_
