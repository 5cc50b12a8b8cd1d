// Angles in double. Sines and cosines are taken afresh at every 64th position and turned on from
// there, position after position: far better than f32 at any distance, at little cost.
#include "ebb/kernels/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/float_dispatch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/rotary.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

constexpr size_t kFresh = 64;
constexpr size_t kMaxPairs = kMaxRotarySize / 2;

// One position's heads.
template <class T>
HWY_NOINLINE void turn(const T* x, T* y, size_t heads, size_t pairs, const T* cosines,
                       const T* sines) {
  for (size_t h = 0; h < heads; ++h, x += 2 * pairs, y += 2 * pairs) {
    each_vector<T>(pairs, [&](size_t i, auto amount) EBB_LAMBDA {
      const auto c = load(cosines + i, amount), s = load(sines + i, amount);
      const auto low = load(x + i, amount), high = load(x + pairs + i, amount);
      store<T>(hn::NegMulAdd(high, s, hn::Mul(low, c)), y + i, amount);
      store<T>(hn::MulAdd(low, s, hn::Mul(high, c)), y + pairs + i, amount);
    });
  }
}

// Positions of one batch row from a multiple of kFresh on, those before r.offset left out.
template <class T>
HWY_NOINLINE void turn_block(const Rotary& r, const T* x, T* y, size_t batch, size_t block) {
  const size_t pairs = r.size / 2;
  const size_t from = (r.offset / kFresh + block) * kFresh;
  const size_t begin = std::max(from, r.offset);
  const size_t end = std::min(from + kFresh, r.offset + r.positions);
  double cosine[kMaxPairs], sine[kMaxPairs], step_cosine[kMaxPairs], step_sine[kMaxPairs];
  for (size_t i = 0; i < pairs; ++i) {
    const double part = 2.0 * static_cast<double>(i) / static_cast<double>(r.size);
    const double rate = std::pow(r.base, -part);
    const double angle = static_cast<double>(from) * rate;
    cosine[i] = std::cos(angle);
    sine[i] = std::sin(angle);
    step_cosine[i] = std::cos(rate);
    step_sine[i] = std::sin(rate);
  }
  for (size_t position = from; position < end; ++position) {
    if (position >= begin) {
      HWY_ALIGN_MAX T cosines[kMaxPairs], sines[kMaxPairs];
      for (size_t i = 0; i < pairs; ++i) {
        cosines[i] = static_cast<T>(cosine[i]);
        sines[i] = static_cast<T>(r.back ? -sine[i] : sine[i]);
      }
      const size_t at = (batch * r.positions + position - r.offset) * r.width;
      const size_t turned = r.heads * r.size;
      turn(x + at, y + at, r.heads, pairs, cosines, sines);
      if (x != y) std::memcpy(y + at + turned, x + at + turned, (r.width - turned) * sizeof(T));
    }
    for (size_t i = 0; i < pairs; ++i) {
      const double c = cosine[i] * step_cosine[i] - sine[i] * step_sine[i];
      sine[i] = sine[i] * step_cosine[i] + cosine[i] * step_sine[i];
      cosine[i] = c;
    }
  }
}

template <class T>
void run(const Rotary& r, const T* x, T* y) {
  if (r.positions == 0) return;
  const size_t blocks = (r.offset + r.positions - 1) / kFresh - r.offset / kFresh + 1;
  const size_t grain = 1 + 16384 / (std::min(kFresh, r.positions) * r.width + 1);
  pool::parallel_for(r.batch * blocks, grain, [&](size_t begin, size_t end) {
    for (size_t b = begin; b < end; ++b) turn_block(r, x, y, b / blocks, b % blocks);
  });
}

EBB_FLOAT_TARGETS(rotary, run);

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

EBB_FLOAT_EXPORT(rotary);

template <class T>
void rotary(const Rotary& r, const T* x, T* y) {
  EBB_FLOAT_DISPATCH(T, rotary)(r, x, y);
}
template void rotary(const Rotary&, const float*, float*);
template void rotary(const Rotary&, const double*, double*);

}  // namespace ebb::kernels
#endif
