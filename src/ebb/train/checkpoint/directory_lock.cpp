#include "ebb/train/checkpoint/directory_lock.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "ebb/base/error.hpp"

namespace ebb::train {
namespace {

// The number in the file, or 0.
long holder_in(File& file) {
  char text[24] = {};
  const std::uint64_t size = file.size();
  if (size == 0 || size >= sizeof text) return 0;
  file.read_at(0, std::as_writable_bytes(std::span(text, size)));
  const long number = std::strtol(text, nullptr, 10);
  return number > 0 ? number : 0;
}

std::string who(long holder) {
  if (holder == 0) return "another process is";
  if (holder == ::getpid()) return fmt::format("this process ({}) is already", holder);
  if (::kill(static_cast<pid_t>(holder), 0) < 0 && errno == ESRCH)
    return fmt::format("process {}, which cannot be seen from here, or one that it has started, is",
                       holder);
  return fmt::format("process {} is", holder);
}

// Somebody may have removed the file, or put another in its place, between opening and locking it.
bool still_named(const File& file) {
  struct stat open, named;
  return ::fstat(file.descriptor(), &open) == 0 && ::stat(file.path().c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory) {
  const std::string path = directory + "/" + kName;
  do {
    file_ = File::open(path, {.access = Access::read_write, .create = true});
    if (!file_.try_lock())
      throw Error(fmt::format(
          "cannot use \"{}\": {} at work there; wait until it ends, or choose another directory",
          directory, who(holder_in(file_))));
  } while (!still_named(file_));
  const std::string number = fmt::format("{}\n", ::getpid());
  file_.write_at(0, std::as_bytes(std::span(number)));
  file_.truncate(number.size());
}

DirectoryLock::~DirectoryLock() {
  if (!file_.is_open()) return;
  try {
    file_.truncate(0);
  } catch (const Error&) {  // the number stays, and means nothing without the lock
  }
}

}  // namespace ebb::train
