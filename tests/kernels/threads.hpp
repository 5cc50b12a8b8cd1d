// Sets the number of threads, and sets it back.
#pragma once

#include "ebb/base/pool.hpp"

namespace ebb::kernels {

class Threads {
 public:
  explicit Threads(int count) : before_(pool::threads()) { pool::set_threads(count); }
  ~Threads() { pool::set_threads(before_); }

 private:
  int before_;
};

}  // namespace ebb::kernels
