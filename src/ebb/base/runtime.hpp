// What the process holds beside the memory seam: code, libraries, stacks, the heap of the standard
// library. Of a budget so much is set aside, and the seam gives out the rest.
//
// It is measured once and rounded up, so that it is the same at every start; the code of ops and plans are
// added as they come. What is found to be held beside that later makes it grow (remeasure).
#pragma once

#include <cstdint>

namespace ebb::runtime {

std::uint64_t reserve();  // what is set aside for it
std::uint64_t likely();   // what it will come to when steps have run, for forecasts

void set_code_of_ops(std::uint64_t bytes);  // of those that compiled functions call

void set_threads(int count);  // of the pool, that compute

// A part of the reserve, for as long as it lives: plans that are kept, in bytes of heap; a library that is
// opened later.
class Share {
 public:
  explicit Share(std::uint64_t bytes = 0);
  ~Share();
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  void set(std::uint64_t bytes);
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_ = 0;
};

// Gives back what nobody uses and measures. Whether more is held than was set aside: the reserve has
// grown then.
bool remeasure();

// Where nothing is promised to anybody: what the heap has given back is no longer set aside.
void measure_anew();
// Nor what remeasure() has found beside the program at its start, and is gone: vectors of the user's.
void measure_less();
// What the reserve has grown by since it was first measured.
std::uint64_t beside_ebb();

// Code that has done its work leaves memory; what is wanted again comes from the file.
void drop_code();

// While it lives the seam's limit only rises: a budget that is asked for may yet be refused, and other threads
// go on with what they have.
class Undecided {
 public:
  Undecided();
  ~Undecided();
  Undecided(const Undecided&) = delete;
  Undecided& operator=(const Undecided&) = delete;
};

// What the whole process may hold, 0: no limit; of it the memory seam may give out what is not set aside.
// Programs say it by a Budget.
void set_budget(std::uint64_t bytes);

}  // namespace ebb::runtime
