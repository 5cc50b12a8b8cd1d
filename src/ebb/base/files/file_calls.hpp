// For the sources of the file seam: calls to the system that faults can meet, that go on where a signal
// cut in, and whose failures read alike.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

#include "ebb/base/files/file_faults.hpp"

namespace ebb::file_calls {

// A FileError: "cannot OPERATION "PATH"DETAIL: cause; what to do".
[[noreturn]] void fail(std::string_view operation, const std::string& path, int error,
                       const std::string& detail = {});

template <class F>
auto restarted(F call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// A fault, or the system call itself.
template <class F>
auto met(file_faults::Call call, F f) -> decltype(f()) {
  return file_faults::meet(call) == file_faults::Outcome::failed ? -1 : restarted(f);
}

std::string folder_of(const std::string& path);  // "." where it names none

}  // namespace ebb::file_calls
