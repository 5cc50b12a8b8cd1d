// What every fuzz target is: bytes in a file, and a reader that gives an Error or a value.
// tools/fuzz builds and runs them; each target's kept inputs are in corpus/.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/pool.hpp"

void read_file_of(const std::string& path);  // the target's own

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = [] {
    ebb::pool::set_threads(1);
    ebb::memory::set_limit(std::uint64_t{64} << 20);  // what is beyond is an error, as in a budget
    return ::memfd_create("input", 0);
  }();
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != static_cast<ssize_t>(size))
    return 0;
  try {
    read_file_of(path);
  } catch (const ebb::Error& error) {
    const std::string line = error.what();
    if (dynamic_cast<const ebb::OutOfMemory*>(&error) == nullptr && line.find('\n') != line.npos)
      std::abort();
  }
  return 0;
}
