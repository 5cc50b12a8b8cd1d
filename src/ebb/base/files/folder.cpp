#include "ebb/base/files/folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string_view>

#include "ebb/base/files/file.hpp"
#include "ebb/base/files/file_calls.hpp"
#include "ebb/base/files/file_record.hpp"

namespace ebb {

using file_calls::fail;
using file_calls::met;
using file_calls::restarted;
using file_faults::Call;

PathKind kind_of(const std::string& path) {
  struct stat info;
  if (path.find('\0') != std::string::npos || ::stat(path.c_str(), &info) < 0)
    return PathKind::nothing;
  return S_ISREG(info.st_mode)   ? PathKind::file
         : S_ISDIR(info.st_mode) ? PathKind::folder
                                 : PathKind::other;
}

std::vector<std::string> names_in(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) fail("look into", folder, errno);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (!entry && errno) fail("look into", folder, errno);
    if (!entry) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void make_folder(const std::string& path) {
  if (met(Call::make_folder, [&] { return ::mkdir(path.c_str(), 0777); }) < 0)
    fail("make", path, errno);
  file_record::made_folder(path);
}

void make_directories(const std::string& path) {
  for (std::size_t end = 1; end <= path.size(); ++end) {
    if (end < path.size() && path[end] != '/') continue;
    const std::string part = path.substr(0, end);
    if (kind_of(part) == PathKind::folder) continue;
    if (met(Call::make_folder, [&] { return ::mkdir(part.c_str(), 0777); }) < 0) {
      if (errno == EEXIST && kind_of(part) == PathKind::folder)
        continue;  // somebody else was quicker
      fail("make", part, errno);
    }
    file_record::made_folder(part);
    sync_folder(file_calls::folder_of(part), part);
  }
}

void sync_folder(const std::string& folder, const std::string& of) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  const int synced = met(Call::sync, [&] { return ::fsync(descriptor); });
  const int error = errno;
  ::close(descriptor);
  if (synced < 0 && error != EINVAL)
    fail("sync the folder of", of.empty() ? folder : of, error,
         " (it is in place, but may not outlive a power cut)");
  if (synced == 0) file_record::synced_folder(folder);
}

void move_path(const std::string& from, const std::string& to, const char* operation) {
  if (met(Call::rename, [&] { return std::rename(from.c_str(), to.c_str()); }) < 0)
    fail(operation, to, errno);
  file_record::moved(from, to);
}

bool exchange_paths(const std::string& a, const std::string& b) {
  const int result = met(Call::rename, [&] {
    return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
  });
  if (result < 0 && (errno == EINVAL || errno == ENOSYS)) return false;
  if (result < 0) fail("put in place", b, errno);
  file_record::exchanged(a, b);
  return true;
}

bool remove_file(const std::string& path) noexcept {
  if (met(Call::remove, [&] { return ::unlink(path.c_str()); }) < 0) return false;
  file_record::removed(path);
  return true;
}

void remove_tree(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) < 0 && errno == ENOENT) return;
  if (!S_ISDIR(info.st_mode)) {
    if (!remove_file(path)) fail("remove", path, errno);
    return;
  }
  for (const std::string& name : names_in(path)) remove_tree(path + "/" + name);
  if (met(Call::remove, [&] { return ::rmdir(path.c_str()); }) < 0) fail("remove", path, errno);
  file_record::removed(path);
}

std::optional<HeldFolder> HeldFolder::take(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return std::nullopt;
  HeldFolder held(descriptor);
  if (restarted([&] { return ::flock(descriptor, LOCK_EX | LOCK_NB); }) < 0) return std::nullopt;
  return held;
}

HeldFolder::~HeldFolder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace ebb
