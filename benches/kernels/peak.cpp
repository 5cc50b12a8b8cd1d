#include "benches/kernels/peak.hpp"

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "benches/kernels/peak.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::bench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Twelve chains, `rounds` links each: more than two FMA units of latency 4 or 5 can take. Gives the
// number of operations, and keeps the sum in *sink so that nothing is left out.
double run_chains(size_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const V x = hn::Set(d, 0.999f), y = hn::Set(d, 1e-3f);
  const float start = *sink;  // chains that begin alike would be computed once
  V c0 = hn::Set(d, start), c1 = hn::Set(d, start + 1), c2 = hn::Set(d, start + 2);
  V c3 = hn::Set(d, start + 3), c4 = hn::Set(d, start + 4), c5 = hn::Set(d, start + 5);
  V c6 = hn::Set(d, start + 6), c7 = hn::Set(d, start + 7), c8 = hn::Set(d, start + 8);
  V c9 = hn::Set(d, start + 9), c10 = hn::Set(d, start + 10), c11 = hn::Set(d, start + 11);
  for (size_t i = 0; i < rounds; ++i) {
    c0 = hn::MulAdd(c0, x, y);
    c1 = hn::MulAdd(c1, x, y);
    c2 = hn::MulAdd(c2, x, y);
    c3 = hn::MulAdd(c3, x, y);
    c4 = hn::MulAdd(c4, x, y);
    c5 = hn::MulAdd(c5, x, y);
    c6 = hn::MulAdd(c6, x, y);
    c7 = hn::MulAdd(c7, x, y);
    c8 = hn::MulAdd(c8, x, y);
    c9 = hn::MulAdd(c9, x, y);
    c10 = hn::MulAdd(c10, x, y);
    c11 = hn::MulAdd(c11, x, y);
  }
  const V sum = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)),
                        hn::Add(hn::Add(hn::Add(c4, c5), hn::Add(c6, c7)),
                                hn::Add(hn::Add(c8, c9), hn::Add(c10, c11))));
  *sink = hn::GetLane(sum);
  return 2.0 * 12.0 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::bench {
HWY_EXPORT(run_chains);

namespace {

// GFLOP/s of one thread; the first, untimed, part brings the clock up.
double one_thread() {
  float sink = 0;
  HWY_DYNAMIC_DISPATCH(run_chains)(50'000, &sink);
  const auto start = std::chrono::steady_clock::now();
  const double operations = HWY_DYNAMIC_DISPATCH(run_chains)(1'000'000, &sink);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return sink == -1.0f ? 0 : operations / time.count() * 1e-9;
}

}  // namespace

double fma_peak(int threads) {
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([&rates, i] { rates[i] = one_thread(); });
  rates[0] = one_thread();
  for (auto& other : others) other.join();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

}  // namespace ebb::bench
#endif
