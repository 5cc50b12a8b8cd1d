// What a tape has seen: a list of op calls with what each one's gradient will need, and the walk back
// over it. Records are reused from tape to tape, so that a loop in steady state allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "ebb/ops/op.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb::tape_detail {

// Tensor ids to slots: open addressing, never shrinks.
class SlotMap {
 public:
  static constexpr std::uint32_t kNone = ~0u;
  std::uint32_t find(std::uint64_t id) const;
  void insert(std::uint64_t id, std::uint32_t slot);
  void clear();
  bool empty() const { return used_ == 0; }

 private:
  struct Entry {
    std::uint64_t id = 0;  // 0: free
    std::uint32_t slot = 0;
  };
  std::vector<Entry> entries_;
  std::size_t used_ = 0;
};

class Record final : public ops::Recorder {
 public:
  struct Call {
    ops::AnyOp op;
    std::shared_ptr<const ops::CustomGrad> custom;  // instead of op, when set
    std::uint32_t first_in, inputs;                 // into links, specs, kept
    std::uint32_t first_slot, outputs;              // outputs take consecutive slots
    Scope::Id scope;
  };
  struct Storage {
    std::vector<Call> calls;
    std::vector<std::uint32_t> links;  // slots of inputs; kNone where not tracked
    std::vector<Spec> specs;           // of a call's inputs, then of its outputs
    std::vector<Tensor> kept;          // parallel to specs; empty where not needed
    SlotMap slots;
    SlotMap own_gradients;              // what an earlier walk gave, and what was computed from it
    std::vector<Tensor> gradients;      // per slot, during a walk
    std::vector<std::uint8_t> reaches;  // per slot: leads to a source
    std::vector<std::uint8_t> made;     // per slot: by a call
    struct Place {
      SparseGradient* sparse = nullptr;
      int reads = 0;
    };
    std::vector<Place> places;  // per slot: where its gradient may be sparse; or empty
  };

  // Has seen nothing yet, and is among this thread's recorders until it is dropped.
  using Owner = std::unique_ptr<Record, RecordDrop>;
  static Owner begin(bool persistent, bool watch_variables);

  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  void record(const ops::OpType& type, const void* op, std::span<const Tensor* const> in,
              std::span<const Tensor> out) override;
  void record(std::shared_ptr<const ops::CustomGrad> rule, std::span<const Tensor* const> in,
              std::span<const Tensor> out) override;

  void watch(const Tensor& x);
  bool tracks(const Tensor& x) const override;
  bool depends(const Tensor& y, const Tensor& x) const;  // whether a walk from y comes to x

  // Walks back from ys to xs. `into` holds what the gradients start from, and then the results.
  // With `keep` the record can be walked again. `sparse`: see Tape::gradient_into.
  void walk(std::span<const Tensor* const> ys, std::span<const Tensor* const> output_gradients,
            std::span<const Tensor* const> xs, std::span<Tensor> into, bool keep,
            std::span<SparseGradient> sparse = {});

  void release();
  void check_usable(const char* what) const;
  bool persistent() const { return persistent_; }
  void failed() override { failed_ = true; }
  bool has_failed() const { return failed_; }
  bool used_up() const { return used_up_; }

 private:
  friend struct RecordDrop;
  Record() = default;
  std::uint32_t slot_of(const Tensor& x);
  bool link(std::span<const Tensor* const> in);
  void note_own(std::span<const Tensor* const> in, std::span<const Tensor> out);
  void refuse_own(std::span<const Tensor* const> ys) const;
  void mark_reachable(std::span<const Tensor* const> xs, std::span<Tensor> into);
  void walk_calls(bool keep);
  void place_sparse(std::span<const Tensor* const> xs, std::span<const Tensor> into,
                    std::span<SparseGradient> sparse);
  void add_call(Call call, std::span<const Tensor* const> in, std::span<const Tensor> out,
                ops::Needs needs);

  bool persistent_ = false, watch_variables_ = true;
  bool used_up_ = false, failed_ = false;
  std::uint32_t slot_count_ = 0;
  std::thread::id thread_;
  Storage storage_;
};

}  // namespace ebb::tape_detail
