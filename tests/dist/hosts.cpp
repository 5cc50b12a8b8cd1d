#include "tests/dist/hosts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ebb::test {
namespace {

bool done(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

std::atomic<int> made{0};

}  // namespace

TwoHosts::TwoHosts() : name_(fmt::format("ebb{}x{}", ::getpid(), made++)) {
  const std::string a = name_ + "a", b = name_ + "b";
  if (!done("command -v ip") || !done("command -v unshare")) {
    why_ = "there is no ip or unshare (iproute2, util-linux)";
    return;
  }
  const bool there =
      done("ip netns add " + a) && done("ip netns add " + b) &&
      done(fmt::format("ip -n {0} link add eth0 type veth peer name eth0 netns {1}", a, b)) &&
      done("unshare --uts true");
  if (!there) {
    why_ = "network namespaces may not be made here";
    return;
  }
  for (const auto& [host, last] : {std::pair(a, 1), std::pair(b, 2)})
    if (!done(fmt::format(
            "ip -n {0} addr add 10.77.0.{1}/24 dev eth0 && ip -n {0} link set eth0 up && "
            "ip -n {0} link set lo up",
            host, last)))
      why_ = "network namespaces have no addresses";
  agent_ = (std::filesystem::temp_directory_path() / (name_ + ".sh")).string();
  write_agent("");
}

// What mpirun starts its daemon on the other host with, in place of ssh: HOST COMMAND…
void TwoHosts::write_agent(const std::string& first) const {
  std::ofstream(agent_) << fmt::format(
      "#!/bin/sh\nshift\nexec ip netns exec {0} unshare --uts --mount sh -c \"hostname {0}; "
      "{1}$*\"\n",
      second_name(), first);
  std::filesystem::permissions(agent_, std::filesystem::perms::owner_all);
}

void TwoHosts::see(const std::string& folder, const std::string& instead) {
  write_agent(fmt::format("mount --bind {} {}; ", instead, folder));
}

TwoHosts::~TwoHosts() {
  for (const char* host : {"a", "b"}) done("ip netns del " + name_ + host);
  std::error_code ignored;
  if (!agent_.empty()) std::filesystem::remove(agent_, ignored);
}

std::vector<std::string> TwoHosts::first() const {
  return {"ip",        "netns",   "exec",
          name_ + "a", "unshare", "--uts",
          "sh",        "-c",      "hostname " + name_ + "a; exec \"$@\"",
          "sh"};
}

std::vector<std::string> TwoHosts::mpirun() const {
  return {"--host",
          "10.77.0.1:1,10.77.0.2:1",
          "--mca",
          "plm_rsh_agent",
          agent_,
          "--mca",
          "btl",
          "tcp,self",
          "--mca",
          "btl_tcp_if_include",
          "eth0",
          "--mca",
          "oob_tcp_if_include",
          "eth0"};
}

void TwoHosts::cut() { done("ip -n " + name_ + "b link set eth0 down"); }

}  // namespace ebb::test
