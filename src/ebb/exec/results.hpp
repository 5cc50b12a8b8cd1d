// What is done when a program's actions are: sums go on to the next micro-batch, variables get their new
// values, and results that were not written where they go are copied there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ebb/exec/addresses.hpp"
#include "ebb/exec/micro_batch.hpp"
#include "ebb/exec/resident_variables.hpp"

namespace ebb::exec {

struct Results {
  struct Sum {
    const std::byte* from;
    std::byte* to;
    std::uint64_t bytes;
  };
  struct Assignment {  // a variable's new value that lies elsewhere
    const std::byte* from;
    plan::Id variable;  // which of the resident ones
    std::uint64_t bytes;
  };
  struct Result {
    const std::byte* from;  // null: one of these, unchanged
    plan::Id input = plan::kNone, variable = plan::kNone;
    bool written = false;  // it is there already
    std::uint64_t offset = 0;
  };
  std::vector<Sum> sums;
  std::vector<Assignment> assignments;
  std::vector<Result> results;

  void carry_sums() const {  // to where the next micro-batch finds them
    for (const Sum& s : sums) std::memcpy(s.to, s.from, s.bytes);
  }
  void assign(const ResidentVariables& to) const {
    for (const Assignment& a : assignments) std::memcpy(to.bytes(a.variable), a.from, a.bytes);
  }
  void copy(const MicroBatch& to) const;
};

// `addresses` as they are at the end of the schedule.
Results find_results(const plan::Plan& plan, const plan::Program& program,
                     const Addresses& addresses, const ResidentVariables& resident);

}  // namespace ebb::exec
