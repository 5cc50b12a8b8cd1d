// What the examples share: a line of progress that is live on a terminal and comes once a pass
// elsewhere, and a digest of weights.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ebb/ebb.hpp>
#include <vector>

class Progress {
 public:
  Progress(const char* name, long steps_a_pass, int passes)
      : name_(name), each_(steps_a_pass), passes_(passes) {}

  double operator()(const ebb::Loss& loss) {  // the mean of this pass so far
    sum_ += loss.sum.item(), count_ += loss.count.item();
    const double mean = sum_ / count_;
    const bool last = ++steps_ % each_ == 0;
    if (last || (live_ && steps_ % 10 == 0)) {
      std::printf("%s%s  epoch %2ld/%d  loss %.4f  %5.0f steps/s%s", live_ ? "\r" : "", name_,
                  (steps_ - 1) / each_ + 1, passes_, mean, static_cast<double>(steps_) / seconds(),
                  live_ && !last ? "" : "\n");
      std::fflush(stdout);
    }
    if (last) sum_ = count_ = 0;
    return mean;
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const char* name_;
  long each_, steps_ = 0;
  int passes_;
  bool live_ = isatty(STDOUT_FILENO);
  double sum_ = 0, count_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

inline std::uint64_t digest(const std::vector<ebb::Variable>& variables) {  // FNV-1a of all bytes
  std::uint64_t h = 0xcbf29ce484222325ull;
  std::vector<std::byte> part(1 << 16);
  for (const ebb::Variable& v : variables)
    for (std::uint64_t at = 0; at < v.spec().bytes(); at += part.size()) {
      const std::uint64_t size = std::min<std::uint64_t>(part.size(), v.spec().bytes() - at);
      v.read({part.data(), size}, at);
      for (std::uint64_t i = 0; i < size; ++i)
        h = (h ^ static_cast<std::uint64_t>(part[i])) * 0x100000001b3ull;
    }
  return h;
}
