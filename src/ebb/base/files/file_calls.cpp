#include "ebb/base/files/file_calls.hpp"

#include <fmt/format.h>

#include <cstring>

#include "ebb/base/error.hpp"

namespace ebb::file_calls {
namespace {

const char* advice(int error) {
  switch (error) {
    case ENOENT:
      return "check the name and that its folder exists";
    case ENOTDIR:
      return "a part of the path is a file, not a folder; check the path";
    case EACCES:
    case EPERM:
      return "check the permissions of the file and its folder";
    case EEXIST:
      return "remove it or choose another name";
    case EISDIR:
      return "name a file, not a folder";
    case ENOSPC:
    case EDQUOT:
      return "free some space there or choose another folder";
    case EROFS:
      return "choose a folder that can be written to";
    case EIO:
      return "the disk or the connection to it failed; check it and try again";
    case EMFILE:
    case ENFILE:
      return "too many files are open; close some or raise ulimit -n";
    case EFBIG:
      return "the file system or ulimit -f does not allow a file this large";
    case ENAMETOOLONG:
      return "choose a shorter name";
    default:
      return "check the path and try again";
  }
}

}  // namespace

void fail(std::string_view operation, const std::string& path, int error,
          const std::string& detail) {
  throw FileError(fmt::format("cannot {} \"{}\"{}: {}; {}", operation, path, detail,
                              std::strerror(error), advice(error)));
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace ebb::file_calls
