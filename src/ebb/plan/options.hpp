// What a user asks of a plan: how much memory, and what may be done to keep to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "ebb/base/bytes.hpp"
#include "ebb/base/messages/ranks.hpp"
#include "ebb/data/part.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/tensor/spec.hpp"

namespace ebb {

// What the planner may do to the numbers. Whatever saves memory carries one of these labels.
enum class Allow : std::uint8_t {
  same_bits,      // recompute, spill, order; a split only where it is bit-equal
  same_gradient,  // also splits that are equal up to rounding
  approximate     // a label only: allowed one by one, by .approximate, .independent_micro_batches
};
const char* name(Allow label);

struct Memory {
  std::uint64_t bytes = 0;  // of the whole process; 0: no limit
  bool automatic = false;   // what the machine or the process's group has, less a margin
  Memory() = default;
  Memory(ByteSize size) : bytes(size.bytes) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> Memory(Number) {
    static_assert(!sizeof(Number),
                  "say the unit of .memory: 64_MiB, 64_MB, or ByteSize{64000000} for bytes");
  }
  static Memory from_machine() {
    Memory m;
    m.automatic = true;
    return m;
  }
};

// What saves memory and changes the numbers: each only on request, by its name. What is allowed is
// used where the budget needs it or where it is faster; the plan says whether it was.
struct Approximate {
  // What waits for the walk back may wait in 16 bits: bf16, or f16, which has three more digits and
  // ends at 65504.
  DType activations = DType::f32;
  bool always = false;  // use it also where the budget does not need it
};

// How the processes of a world share a step (dist/strategy.hpp).
struct Strategy {
  enum class Kind : std::uint8_t { mirrored };
  Kind kind = Kind::mirrored;
  bool operator==(const Strategy&) const = default;
};

struct CompileOptions {
  Memory memory = {};
  Allow allow = Allow::same_gradient;
  bool recompute = true;
  bool fuse = true;             // elementwise calls become one where nobody else reads between them
  bool split = true;            // the batch may be taken in micro-batches
  bool gradient_blocks = true;  // a large gradient may be made block by block, in its update
  bool spill = true;            // activations, parameters and optimizer state may go to a file
  // Split even where examples depend on each other, as in batch_norm while training: another
  // function! Each micro-batch is then a batch of its own, normalised by itself, and variables that
  // the function assigns, such as running statistics, go on from one to the next; gradients are
  // added up as ever and the optimizer makes one step. A step that fails in a later micro-batch is
  // torn. Such plans carry the label `approximate`.
  bool independent_micro_batches = false;
  // Examples of a micro-batch, where you know better; 0: the planner's choice. An Error where the
  // batch cannot be split, or not with what `allow` asks for.
  std::int64_t micro_batch = 0;
  std::string spill_directory = {};  // "": TMPDIR, /var/tmp, /tmp
  int plans = 8;                     // shapes whose plans are kept
  Approximate approximate = {};
  // What a step does about a loss that is infinite or NaN. Not set: what the optimizer was told
  // (Optimizer::on_bad_loss). It is known before anything is updated, but for a second step in
  // one function: what stops that one leaves the first one's updates, and the step torn.
  std::optional<BadLoss> bad_loss = {};
  // The processes that share every step: a dist::World, which outlives it. Each has its rows of the batch
  // (Dataset::part), and all make the same calls in the same order. Null: this one alone.
  Ranks* world = nullptr;
  Strategy strategy = {};
};

// Which part of every batch this process has.
inline data::Part part_of(const CompileOptions& options) {
  if (!options.world) return {};
  return {options.world->rank(), options.world->size()};
}

}  // namespace ebb
