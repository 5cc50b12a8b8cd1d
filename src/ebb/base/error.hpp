// Errors a user can meet. One line each: what, where, expected, found, what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace ebb {

// A user's mistake or a condition outside the program. Asserts are for our own bugs. Inside a Scope,
// such as that of a layer, its path is added to the first line: "…, in decoder/layer3/attn".
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& line);

 protected:
  struct AsItIs {};
  Error(const std::string& line, AsItIs) : std::runtime_error(line) {}
};

// A hard limit on memory, or the system, refused a request. Nothing was changed by the refusal.
// It names who holds most, scopes included, and is made where scopes cannot be looked up.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& line) : Error(line, AsItIs{}) {}
};

// A file could not be read or written, or its content is not what it claims to be.
class FileError : public Error {
 public:
  using Error::Error;
};

}  // namespace ebb
