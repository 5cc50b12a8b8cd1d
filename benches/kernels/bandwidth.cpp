#include "kernels/bandwidth.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "ebb/base/pool.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bandwidth.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::bench::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// kReads arrays in, one out (or none: then the sum goes to a place nobody reads).
template <int kReads, bool kWrites, bool kPast>
void pass_over(const float* a, const float* b, const float* c, float* to, std::size_t n) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d), sum2 = sum, sum3 = sum, sum4 = sum;
  for (std::size_t i = 0; i + 4 * lanes <= n; i += 4 * lanes) {
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t at = i + k * lanes;
      auto v = hn::Load(d, a + at);
      if (kReads > 1) v = hn::Add(v, hn::Load(d, b + at));
      if (kReads > 2) v = hn::Add(v, hn::Load(d, c + at));
      if (kWrites && kPast) hn::Stream(v, d, to + at);
      if (kWrites && !kPast) hn::Store(v, d, to + at);
      if (!kWrites)
        (k == 0   ? sum
         : k == 1 ? sum2
         : k == 2 ? sum3
                  : sum4) = hn::Add(k == 0   ? sum
                                    : k == 1 ? sum2
                                    : k == 2 ? sum3
                                             : sum4,
                                    v);
    }
  }
  if (!kWrites) {
    HWY_ALIGN float sink[hn::MaxLanes(d)];
    hn::Store(hn::Add(hn::Add(sum, sum2), hn::Add(sum3, sum4)), d, sink);
    asm volatile("" ::"r"(sink) : "memory");
  }
}

void pass_piece(int reads, bool writes, bool past, const float* a, const float* b, const float* c,
                float* to, std::size_t n) {
  if (!writes) return pass_over<1, false, false>(a, b, c, to, n);
  const auto loop = reads == 1   ? (past ? pass_over<1, true, true> : pass_over<1, true, false>)
                    : reads == 2 ? (past ? pass_over<2, true, true> : pass_over<2, true, false>)
                                 : (past ? pass_over<3, true, true> : pass_over<3, true, false>);
  loop(a, b, c, to, n);
}

}  // namespace
}  // namespace ebb::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::bench {
HWY_EXPORT(pass_piece);

namespace {
constexpr std::size_t kHuge = std::size_t{2} << 20;
}

Buffer::Buffer(std::size_t bytes) : bytes_((bytes + kHuge - 1) / kHuge * kHuge) {
  data_ = std::aligned_alloc(kHuge, bytes_);
  if (data_ == nullptr) std::abort();
  madvise(data_, bytes_, MADV_HUGEPAGE);
  std::memset(data_, 0, bytes_);
}
Buffer::~Buffer() { std::free(data_); }

const char* name(Streams s) {
  return s == Streams::read    ? "read"
         : s == Streams::copy  ? "copy"
         : s == Streams::triad ? "triad"
                               : "quad";
}
int reads(Streams s) { return s == Streams::triad ? 2 : s == Streams::quad ? 3 : 1; }
int writes(Streams s) { return s == Streams::read ? 0 : 1; }
int variants(Streams s) { return s == Streams::read ? 2 : 4; }

void pass(Streams streams, int variant, const Buffer& a, const Buffer& b, const Buffer& c,
          const Buffer& to, std::size_t bytes) {
  const std::size_t n = bytes / sizeof(float);
  const auto threads = static_cast<std::size_t>(pool::threads());
  const std::size_t halves = (n / threads + 1023) / 1024 * 1024;
  const std::size_t grain = variant % 2 == 0 ? 32768 : halves;
  const bool past = variant < 2;
  pool::parallel_for(n, grain, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(pass_piece)
    (reads(streams), writes(streams) != 0, past, a.as<float>() + begin, b.as<float>() + begin,
     c.as<float>() + begin, to.as<float>() + begin, end - begin);
  });
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace ebb::bench
#endif  // HWY_ONCE
