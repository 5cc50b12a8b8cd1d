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
  constexpr size_t kChains = 12;
  V c[kChains];
#pragma GCC unroll 12
  for (size_t k = 0; k < kChains; ++k) c[k] = hn::Set(d, start + static_cast<float>(k));
  for (size_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (size_t k = 0; k < kChains; ++k) c[k] = hn::MulAdd(c[k], x, y);
  }
  V sum = c[0];
#pragma GCC unroll 12
  for (size_t k = 1; k < kChains; ++k) sum = hn::Add(sum, c[k]);
  *sink = hn::GetLane(sum);
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
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
