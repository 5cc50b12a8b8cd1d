// The memory that the whole process may hold: one budget for all that it does.
//
//   Budget budget(64_MiB);                                // for as long as it lives
//   auto train = compile(digits.spec(), {}, …);           // both are planned within it, together
//   auto test = compile(held_out.spec(), {}, …);
//
// compile(…, {.memory = 64_MiB}, …) is short for a budget that lives as long as the compiled function.
// Of several that are alive the smallest counts. Make it before what it is for: functions that were
// compiled without one keep the plans they have until they are planned anew.
//
// The budget is the guard's, too: of what it leaves beside the runtime, the memory seam gives out no
// more (OutOfMemory says who holds what). Tensors that a program makes after compile() want room of
// their own, said before: memory::Room.
#pragma once

#include <cstdint>

#include "ebb/base/bytes.hpp"

namespace ebb {

class Budget {
 public:
  Budget() = default;  // none
  explicit Budget(ByteSize bytes);
  ~Budget();
  Budget(Budget&& other) noexcept;
  Budget& operator=(Budget&& other) noexcept;

  static std::uint64_t now();  // bytes, of the one that counts; 0: none

 private:
  std::uint64_t bytes_ = 0;
};

}  // namespace ebb
