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

// What the process holds beside the memory seam: code, libraries, stacks, the heap of the standard
// library. It is measured once and rounded up, so that it is the same at every start; plans are added
// as they are made.
namespace runtime {

std::uint64_t reserve();  // what is set aside for it
std::uint64_t likely();   // what it will come to when steps have run, for forecasts

void set_code_of_ops(std::uint64_t bytes);  // of those that compiled functions call

// Plans that are to be kept, in bytes of heap: a part of the reserve for as long as it lives.
class Plans {
 public:
  explicit Plans(std::uint64_t bytes = 0);
  ~Plans();
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;
  void set(std::uint64_t bytes);

 private:
  std::uint64_t bytes_ = 0;
};

// Gives back what nobody uses and measures. Whether more is held than was set aside: the reserve has
// grown then.
bool settle();

// Where nothing is promised to anybody: what the heap has given back is no longer set aside.
void measure_anew();
// Nor what settle() has found beside the program at its start, and is gone: vectors of the user's.
void measure_less();
// What the reserve has grown by since it was first measured.
std::uint64_t beside_ebb();

// Under a budget, code that has done its work leaves memory; what is wanted again comes from the file.
void drop_code();

}  // namespace runtime
}  // namespace ebb
