// Links between processes that know no more of each other than a handle.
#include "ringpress/internal/link.h"

#include <exception>

#include "ring/bootstrap/host_identity.h"
#include "ring/factory.h"
#include "ring/transport/tcp/factory.h"

namespace ringpress::ring {

Result<std::unique_ptr<LinkListener>> listen_for_links(const LinkOptions& options) {
  try {
    RINGPRESS_ASSIGN_OR_RETURN(const std::string host,
                               bootstrap::interface_address(options.address));
    return transport::tcp::make_link_listener(host, options);
  } catch (const std::exception& error) {
    return Status(Code::kSystem, std::string("cannot listen: ") + error.what());
  }
}

Result<std::unique_ptr<LinkConnector>> open_link(const LinkHandle& handle,
                                                 const LinkOptions& options) {
  try {
    return transport::tcp::make_link_connector(handle, options);
  } catch (const std::exception& error) {
    return Status(Code::kSystem, std::string("cannot connect: ") + error.what());
  }
}

}  // namespace ringpress::ring
