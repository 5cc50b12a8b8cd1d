// The memory bandwidth of this machine: what a kernel that only moves its bytes could reach.
//
// A yardstick has the read and write streams of the kernel it is held against (a unary function
// reads one array and writes one: `copy`), and is the best of several plain loops, with stores
// through and past the caches, in pieces and in halves.
#pragma once

#include <cstddef>
#include <vector>

namespace ebb::bench {

// Memory as benchmarks want it: aligned to 2 MiB, on huge pages where there are some, touched.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_;
  std::size_t bytes_;
};

enum class Streams { read, copy, triad, quad };  // 1R, 1R+1W, 2R+1W, 3R+1W
const char* name(Streams streams);
int reads(Streams streams);
int writes(Streams streams);

// One pass over `bytes` of each array by the loop number `variant` (below variants(streams)).
int variants(Streams streams);
void pass(Streams streams, int variant, const Buffer& a, const Buffer& b, const Buffer& c,
          const Buffer& to, std::size_t bytes);

double seconds_now();
double median(std::vector<double> values);

}  // namespace ebb::bench
