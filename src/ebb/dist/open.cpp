#include "ebb/dist/open.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "ebb/base/files/file.hpp"
#include "ebb/dist/errors.hpp"
#include "ebb/dist/plugin.hpp"

namespace ebb::dist {
namespace {

constexpr char kFile[] = "libebb_dist_mpi.so";
// The process that has opened one: what it starts inherits the launcher's variables, and is no rank.
constexpr char kOpenedBy[] = "EBB_DIST_OPENED_BY";

int number(const char* text, int otherwise) {
  if (!text || !*text) return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return *end == 0 && value >= 0 && value < 1 << 24 ? static_cast<int>(value) : otherwise;
}

std::string folder_of(const std::string& path) { return path.substr(0, path.find_last_of('/')); }

std::string this_program() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "";
}

// libebb.so, where this code is in one; "": in the program.
std::string this_library() {
  Dl_info about{};
  if (!dladdr(reinterpret_cast<void*>(&this_library), &about) || !about.dli_fname) return "";
  const std::string path = about.dli_fname;
  return path.starts_with('/') && path.find(".so") != std::string::npos ? path : "";
}

class PluginTransport final : public Transport {
 public:
  explicit PluginTransport(const EbbDistPlugin& plugin) : plugin_(plugin) {}

  int rank() const override { return plugin_.rank(); }
  int size() const override { return plugin_.size(); }
  std::string host() const override {
    char name[256];
    plugin_.host(name, sizeof name);
    return name;
  }

  Request send(const Address& to, std::span<const std::byte> bytes) override {
    Request request = 0;
    check(plugin_.send(as(to), bytes.data(), bytes.size(), &request), "a message to", to.peer);
    return request;
  }
  Request receive(const Address& from, std::span<std::byte> bytes) override {
    Request request = 0;
    check(plugin_.receive(as(from), bytes.data(), bytes.size(), &request), "a message from",
          from.peer);
    return request;
  }
  std::optional<std::size_t> test(Request request) override {
    int over = 0;
    std::size_t bytes = 0;
    if (const int code = plugin_.test(&request, &over, &bytes)) throw Error(text(code));
    if (over && bytes == kEbbDistTooLong)
      throw MessageTooLong("messages: one is longer than the room for it");
    return over ? std::optional(bytes) : std::nullopt;
  }
  void cancel(Request request) override { plugin_.cancel(&request); }
  // Where the launcher cannot be reached either, the process still ends.
  void abort(int code) override {
    std::thread([] {
      ::sleep(2);
      ::kill(::getpid(), SIGKILL);
    }).detach();
    plugin_.abort(code);
  }
  void close() override {
    if (const int code = plugin_.close()) throw Error(text(code));
  }

 private:
  static EbbDistAddress as(const Address& a) {
    return {a.peer, static_cast<int>(a.channel), a.tag};
  }
  std::string text(int code) const {
    char words[512];
    plugin_.error(code, words, sizeof words);
    return fmt::format("messages: {}", words);
  }
  void check(int code, const char* what, int peer) const {
    if (code) throw Error(fmt::format("{} (rank {}): {}", what, peer, text(code)));
  }
  const EbbDistPlugin& plugin_;
};

const EbbDistPlugin& load(const Started& as) {
  const auto refuse = [&](const std::string& why) {
    throw OnEveryRank(fmt::format("dist: {} started {} processes, but {}", as.by, as.size, why),
                      as.rank == 0);
  };
  const std::vector<std::string> places = plugin_places();
  const auto found = std::find_if(places.begin(), places.end(), file_exists);
  if (found == places.end()) refuse(missing_plugin(places));
  void* const object = dlopen(found->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object) {
    const char* const why = dlerror();
    refuse(fmt::format("{} cannot be opened: {}; install Open MPI (openmpi-bin)", *found,
                       why ? why : "unknown"));
  }
  const auto entry = reinterpret_cast<EbbDistEntry>(dlsym(object, kEbbDistEntry));
  if (!entry) refuse(fmt::format("{} is no plugin of Ebb's: it has no {}", *found, kEbbDistEntry));
  const EbbDistPlugin* const plugin = entry();
  if (plugin->interface != kEbbDistInterface || plugin->bytes != sizeof(EbbDistPlugin))
    refuse(
        fmt::format("{} has interface {}, and this Ebb has {}: it is of another version; install "
                    "both from one build",
                    *found, plugin->interface, kEbbDistInterface));
  return *plugin;
}

}  // namespace

std::optional<Started> started(const Environment& environment) {
  const auto of = [&](const char* name, int otherwise) {
    return number(environment(name), otherwise);
  };
  struct Launcher {
    const char *by, *rank, *size;
  };
  // PMIX_RANK alone (srun --mpi=pmix) has its size from Slurm; SLURM_NTASKS is also set where a batch script
  // runs one process by itself, so the step's own number counts.
  constexpr Launcher kLaunchers[] = {
      {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"mpirun", "PMI_RANK", "PMI_SIZE"},
      {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
  };
  for (const Launcher& l : kLaunchers) {
    const int size = of(l.size, 1), rank = of(l.rank, -1);
    if (size > 1 && rank >= 0 && rank < size) return Started{l.by, rank, size};
  }
  return {};
}

std::optional<Started> started() {
  const char* const opened = std::getenv(kOpenedBy);
  if (opened && number(opened, 0) != static_cast<int>(getpid())) return {};
  return started([](const char* name) -> const char* { return std::getenv(name); });
}

bool under_mpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE"); }
bool launched() { return under_mpirun() || std::getenv("SLURM_STEP_NUM_TASKS"); }

std::vector<std::string> plugin_places() {
  if (const char* named = std::getenv("EBB_DIST_PLUGIN"); named && *named) return {named};
  std::vector<std::string> folders;
  if (const std::string library = this_library(); !library.empty())
    folders.push_back(folder_of(library));
  folders.push_back(folder_of(this_program()));
  folders.push_back(folders.back() + "/../" EBB_LIBDIR);
  std::vector<std::string> places;
  for (const std::string& folder : folders) {
    const std::string place = folder + "/" + kFile;
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  return places;
}

std::string missing_plugin(const std::vector<std::string>& places) {
  return fmt::format(
      "there is no {} in {}; install Open MPI (libopenmpi-dev) and build Ebb again, or set "
      "EBB_DIST_PLUGIN",
      kFile, fmt::join(places, ", "));
}

std::unique_ptr<Transport> open_plugin(const Started& as) {
  const EbbDistPlugin& plugin = load(as);
  setenv(kOpenedBy, fmt::format("{}", getpid()).c_str(), 1);
  if (const int code = plugin.open(kChannels)) {
    char words[512];
    plugin.error(code, words, sizeof words);
    throw OnEveryRank(fmt::format("dist: MPI does not start: {}", words), as.rank == 0);
  }
  auto transport = std::make_unique<PluginTransport>(plugin);
  if (transport->size() != as.size)
    throw OnEveryRank(
        fmt::format("dist: {} started {} processes, and MPI sees {}: they were not started by the "
                    "MPI that Ebb was built with; use its mpirun, or srun --mpi=pmix",
                    as.by, as.size, transport->size()),
        as.rank == 0);
  return transport;
}

}  // namespace ebb::dist
