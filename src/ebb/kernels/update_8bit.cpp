#include "ebb/kernels/update_8bit.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/update_8bit_codes.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/update_8bit.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/update-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

using F = RowTag<float>;
using I = hn::RebindToSigned<F>;
using U = hn::RebindToUnsigned<F>;
using Bytes = hn::Rebind<std::uint8_t, F>;
constexpr std::size_t kLanes = kRowLanes<float>;

HWY_INLINE hn::Vec<I> load_codes(const std::uint8_t* p) {
  return hn::PromoteTo(I(), hn::LoadU(Bytes(), p));
}

template <class C>
HWY_INLINE RowVec<float> decoded(hn::Vec<I> code, RowVec<float> scale) {
  const auto bits = hn::ShiftLeft<C::shift>(hn::Add(code, hn::Set(I(), C::base)));
  return hn::Mul(hn::Sub(hn::BitCast(F(), bits), hn::Set(F(), kFloor)), scale);
}

HWY_INLINE RowVec<float> decode_m(const std::uint8_t* p, RowVec<float> scale) {
  const auto code = load_codes(p);
  const auto size = decoded<CodeOfM>(hn::And(code, hn::Set(I(), 127)), scale);
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(I(), 128)));
  return hn::Xor(size, hn::BitCast(F(), sign));
}

HWY_INLINE RowVec<float> decode_root(const std::uint8_t* p, RowVec<float> scale) {
  return decoded<CodeOfV>(load_codes(p), scale);
}

// `up` is what is added to the bits before the lower ones are cut off.
template <class C>
HWY_INLINE hn::Vec<I> encoded(RowVec<float> size, RowVec<float> inverse, hn::Vec<I> up) {
  const auto y = hn::MulAdd(size, inverse, hn::Set(F(), kFloor));
  const auto code =
      hn::Sub(hn::ShiftRight<C::shift>(hn::Add(hn::BitCast(I(), y), up)), hn::Set(I(), C::base));
  return hn::Min(code, hn::Set(I(), C::last));
}

HWY_INLINE void encode_m(RowVec<float> m, RowVec<float> inverse, std::uint8_t* to) {
  const auto size = encoded<CodeOfM>(hn::Abs(m), inverse, hn::Set(I(), 1 << (CodeOfM::shift - 1)));
  const auto sign = hn::ShiftRight<24>(hn::BitCast(U(), hn::And(m, hn::SignBit(F()))));
  hn::StoreU(hn::DemoteTo(Bytes(), hn::Or(size, hn::BitCast(I(), sign))), Bytes(), to);
}

// `mixed`: position * kMix + seed, of each element.
HWY_INLINE void encode_root(RowVec<float> root, RowVec<float> inverse, hn::Vec<U> mixed,
                            std::uint8_t* to) {
  const auto hash = hn::Mul(hn::Xor(mixed, hn::ShiftRight<15>(mixed)), hn::Set(U(), 0x85ebca6bu));
  const auto up = hn::BitCast(I(), hn::ShiftRight<32 - CodeOfV::shift>(hash));
  const auto code = encoded<CodeOfV>(root, inverse, up);
  const auto some = hn::RebindMask(I(), hn::Gt(root, hn::Zero(F())));
  const auto least = hn::IfThenElseZero(some, hn::Set(I(), 1));
  hn::StoreU(hn::DemoteTo(Bytes(), hn::Max(code, least)), Bytes(), to);
}

struct Constants {
  Gradient<float> gradient;
  RowVec<float> shrink, fresh1, beta2, fresh2, root, eps, rate;
  hn::Vec<U> mixed;  // what encode_root hashes, for the first elements of a tensor

  Constants(const Adam8Rule& r, GradientUse use)
      : gradient(use, r.adam.decoupled ? 0 : r.adam.weight_decay),
        shrink(constant<float>(r.adam.decoupled ? 1 - r.adam.lr * r.adam.weight_decay : 1)),
        fresh1(constant<float>(1 - r.adam.beta1)),
        beta2(constant<float>(r.adam.beta2)),
        fresh2(constant<float>(1 - r.adam.beta2)),
        root(constant<float>(1 / std::sqrt(r.adam.correction2))),
        eps(constant<float>(r.adam.eps)),
        rate(constant<float>(r.adam.lr / r.adam.correction1)),
        mixed(hn::Add(
            hn::Mul(hn::Iota(U(), 0), hn::Set(U(), kMix)),
            hn::Set(U(), static_cast<std::uint32_t>(
                             static_cast<std::uint64_t>(r.step) * 0xd1342543de82ef95u >> 32)))) {}
};

// The scale for a block whose largest is `largest`, and its inverse.
template <class C>
HWY_INLINE void scale_of(RowVec<float> largest, float* scale, float* inverse) {
  const float most = hn::GetLane(hn::MaxOfLanes(F(), largest));
  *scale = most < kTiny ? 0 : most / C::top;
  *inverse = most < kTiny ? 0 : 1 / *scale;
}

// One whole block; `first` is the place of its first element in the tensor.
void update_block(float* param, const float* grad, std::uint8_t* m_code, std::uint8_t* v_code,
                  float* m_scale, float* v_scale, std::size_t first, const Constants& c) {
  HWY_ALIGN float ms[kStateBlock], roots[kStateBlock];
  const auto from_m = hn::Set(F(), *m_scale), from_v = hn::Set(F(), *v_scale);
  auto most_m = hn::Zero(F()), most_root = hn::Zero(F());
  for (std::size_t i = 0; i < kStateBlock; i += kLanes) {
    const auto p = hn::LoadU(F(), param + i);
    const auto g = c.gradient(hn::LoadU(F(), grad + i), p);
    const auto m_old = decode_m(m_code + i, from_m);
    const auto root_old = decode_root(v_code + i, from_v);
    const auto m = hn::MulAdd(c.fresh1, hn::Sub(g, m_old), m_old);
    const auto v =
        hn::MulAdd(c.beta2, hn::Mul(root_old, root_old), hn::Mul(hn::Mul(c.fresh2, g), g));
    const auto root = hn::Sqrt(v);
    hn::Store(m, F(), ms + i);
    hn::Store(root, F(), roots + i);
    most_m = hn::Max(most_m, hn::Abs(m));
    most_root = hn::Max(most_root, root);
    const auto move = hn::Div(m, hn::MulAdd(root, c.root, c.eps));
    hn::StoreU(hn::NegMulAdd(c.rate, move, hn::Mul(p, c.shrink)), F(), param + i);
  }
  float inverse_m, inverse_v;
  scale_of<CodeOfM>(most_m, m_scale, &inverse_m);
  scale_of<CodeOfV>(most_root, v_scale, &inverse_v);
  const auto to_m = hn::Set(F(), inverse_m), to_v = hn::Set(F(), inverse_v);
  auto mixed = hn::Add(c.mixed, hn::Set(U(), static_cast<std::uint32_t>(first) * kMix));
  for (std::size_t i = 0; i < kStateBlock; i += kLanes) {
    encode_m(hn::Load(F(), ms + i), to_m, m_code + i);
    encode_root(hn::Load(F(), roots + i), to_v, mixed, v_code + i);
    mixed = hn::Add(mixed, hn::Set(U(), static_cast<std::uint32_t>(kLanes) * kMix));
  }
}

void adam8_blocks(const Update8& t, std::size_t begin, std::size_t end, const Adam8Rule& rule,
                  GradientUse use) {
  const Constants constants(rule, use);
  for (std::size_t b = begin; b < end; ++b) {
    const std::size_t at = b * kStateBlock, n = std::min(kStateBlock, t.size - at);
    if (n == kStateBlock) {
      update_block(t.param + at, t.grad + at, t.m + at, t.v + at, t.m_scale + b, t.v_scale + b,
                   t.first + at, constants);
      continue;
    }
    HWY_ALIGN float param[kStateBlock] = {}, grad[kStateBlock] = {};
    std::uint8_t m[kStateBlock] = {}, v[kStateBlock] = {};
    std::memcpy(param, t.param + at, n * sizeof(float));
    std::memcpy(grad, t.grad + at, n * sizeof(float));
    std::memcpy(m, t.m + at, n);
    std::memcpy(v, t.v + at, n);
    update_block(param, grad, m, v, t.m_scale + b, t.v_scale + b, t.first + at, constants);
    std::memcpy(t.param + at, param, n * sizeof(float));
    std::memcpy(t.m + at, m, n);
    std::memcpy(t.v + at, v, n);
  }
}

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

HWY_EXPORT(adam8_blocks);

std::size_t blocks_of(std::size_t size) { return ceil_div(size, kStateBlock); }
std::size_t scales_at(std::size_t size) { return round_up(2 * size, 4); }

template <class C>
float value_of(int code, float scale) {
  return (std::bit_cast<float>((code + C::base) << C::shift) - kFloor) * scale;
}

}  // namespace

std::size_t adam8_state_bytes(std::size_t size) {
  return scales_at(size) + 2 * blocks_of(size) * sizeof(float);
}

Update8 update8(float* param, const float* grad, std::byte* state, std::size_t size) {
  auto* codes = reinterpret_cast<std::uint8_t*>(state);
  auto* scales = reinterpret_cast<float*>(state + scales_at(size));
  return {param, grad, codes, codes + size, scales, scales + blocks_of(size), size, 0};
}

Update8 part_of(const Update8& t, float* param, const float* grad, std::size_t from,
                std::size_t count) {
  const std::size_t block = from / kStateBlock;
  return {param, grad,          t.m + from, t.v + from, t.m_scale + block, t.v_scale + block,
          count, t.first + from};
}

void adam8(std::span<const Update8> tensors, const Adam8Rule& rule, GradientUse use) {
  std::size_t total = 0;
  for (const Update8& t : tensors) total += blocks_of(t.size);
  const auto part = HWY_DYNAMIC_DISPATCH(adam8_blocks);
  pool::parallel_for(total, 128, [&](std::size_t begin, std::size_t end) {
    std::size_t first = 0;
    for (const Update8& t : tensors) {
      const std::size_t last = first + blocks_of(t.size);
      if (last > begin && first < end)
        part(t, std::max(begin, first) - first, std::min(end, last) - first, rule, use);
      first = last;
    }
  });
}

void adam8_read(const Update8& t, float* m, float* v) {
  for (std::size_t i = 0; i < t.size; ++i) {
    const float size = value_of<CodeOfM>(t.m[i] & 127, t.m_scale[i / kStateBlock]);
    const float root = value_of<CodeOfV>(t.v[i], t.v_scale[i / kStateBlock]);
    m[i] = t.m[i] & 128 ? -size : size;
    v[i] = root * root;
  }
}

}  // namespace ebb::kernels
#endif
