// Errors a user can meet. One line each: what, where, expected, found, what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace ebb {

// A user's mistake or a condition outside the program. Asserts are for our own bugs.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& line) : std::runtime_error(line) {}
};

// A hard limit on memory, or the system, refused a request. Nothing was changed by the refusal.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// A file could not be read or written, or its content is not what it claims to be.
class FileError : public Error {
 public:
  using Error::Error;
};

}  // namespace ebb
