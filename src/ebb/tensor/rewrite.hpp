// New values for several variables: all of them, or none.
//
//   Rewrite rewrite(variables);
//   rewrite.write(0, part, offset);   // piece by piece, in any order
//   rewrite.commit();                 // without it they are as they were
//
// There is no second copy of them in memory. What is in memory is set aside in a file without a name
// and written in place; what somebody else keeps is written beside the old, and switched. What has no
// bytes yet, or shares them, takes its own.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "ebb/base/files/file.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb {

class Rewrite {
 public:
  // Each variable once. All memory and room on the disk is taken here.
  explicit Rewrite(std::vector<Variable> variables);
  // Where they cannot be set back (the disk fails twice in a row) it says so on stderr.
  ~Rewrite();
  Rewrite(const Rewrite&) = delete;
  Rewrite& operator=(const Rewrite&) = delete;

  void write(std::size_t variable, std::span<const std::byte> from, std::uint64_t offset);
  void commit();

  static constexpr std::size_t kChunk = std::size_t{1} << 20;  // bytes moved at once

 private:
  struct Entry {
    Tensor fresh;             // takes the value's place; empty: written where it lies …
    bool in_place = false;    // … in memory, …
    std::uint64_t aside = 0;  // … which was put here in the file; else with its backing
  };
  void set_aside(std::span<const std::size_t> large);
  void set_back() noexcept;

  std::vector<Variable> variables_;
  std::vector<Entry> entries_;
  std::set<Variable::Backing*> backings_;
  File aside_;
  bool done_ = false;
};

}  // namespace ebb
