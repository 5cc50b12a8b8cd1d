#include "ebb/plan/forecast/timed_op.hpp"

#include <atomic>

#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/base/rng.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/plan/forecast/caches.hpp"

namespace ebb::plan {
namespace {

void fill(const Spec& s, std::byte* at, std::int64_t below) {
  if (s.dtype != DType::i32) {
    std::fill_n(reinterpret_cast<float*>(at), s.size(), 0.5f);
    return;
  }
  // Drawn: of indices a step apart the processor knows the next.
  for (std::int64_t i = 0; i < s.size(); ++i)
    reinterpret_cast<std::int32_t*>(at)[i] = static_cast<std::int32_t>(
        mix(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(below));
}

constexpr std::uint64_t kLittle = 64 << 20;
std::atomic<bool> little{false};

}  // namespace

InLittleMemory::InLittleMemory(std::uint64_t room) : before_(little.exchange(room < kLittle)) {
  give_back();
}
InLittleMemory::~InLittleMemory() {
  give_back();
  little = before_;
}
void InLittleMemory::give_back() {
  if (!little) return;
  memory::trim();
  runtime::drop_code();
}

Took took(const ops::OpType& type, const void* op, const std::vector<Spec>& in, How how) {
  std::vector<Spec> out(static_cast<std::size_t>(type.outputs));
  type.shape(op, in, out.data());
  const std::size_t scratch = type.scratch(op, in);
  const auto taken = [&](std::size_t o) {  // the input whose bytes that output takes
    const std::uint32_t may = how.in_place ? type.overwrites(op, static_cast<int>(o)) : 0;
    std::size_t i = 0;
    while (i < in.size() && !((may >> i & 1) && in[i] == out[o])) ++i;
    return i;
  };
  std::size_t bytes = memory::aligned(scratch) + memory::kAlignment;
  for (const Spec& s : in) bytes += memory::aligned(s.bytes());
  for (std::size_t o = 0; o < out.size(); ++o)
    if (taken(o) == in.size()) bytes += memory::aligned(out[o].bytes());
  struct Last {
    ~Last() { InLittleMemory::give_back(); }
  } last;
  const memory::Unguarded plans;  // in whichever thread
  memory::Buffer held(bytes, "machine", Category::workspace);
  auto* at =
      reinterpret_cast<std::byte*>(memory::aligned(reinterpret_cast<std::uintptr_t>(held.data())));
  std::vector<ops::In> ins;
  std::vector<ops::Out> outs;
  for (const Spec& s : in) {
    ins.push_back({&s, at});
    fill(s, at, how.below);
    at += memory::aligned(s.bytes());
  }
  for (std::size_t o = 0; o < out.size(); ++o) {
    const std::size_t i = taken(o);
    outs.push_back({&out[o], i < in.size() ? const_cast<void*>(ins[i].data) : at});
    if (i == in.size()) at += memory::aligned(out[o].bytes());
  }
  const ops::Scratch rest{at, scratch};
  const auto run = [&] { type.run(op, ins, outs, rest); };
  if (!how.far) return {type.cost(op, in), fastest(run)};
  const auto out_of_caches = [&] { put_out_of_caches(held.data(), bytes); };
  return {type.cost(op, in), fastest(run, out_of_caches, kLongestFar)};
}

}  // namespace ebb::plan
