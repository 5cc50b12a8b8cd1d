// An update whose state is too large for the budget: piece by piece, while the state goes from the spill file
// through a few pieces of memory and back. What is read next, updated now and written last are under way at
// once. It is written beside the old, as all that lies in the file. Where the gradient is made in blocks of
// rows (trace/gradient_blocks.hpp), a piece is whole rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/exec/spill/spill_file.hpp"
#include "ebb/ops/op.hpp"
#include "ebb/plan/graph/lower.hpp"

namespace ebb::exec {

class StreamedUpdate {
 public:
  // `slots`: of each array of the plan's stream, in the file.
  StreamedUpdate(const trace::Call& call, const plan::Lowered::Stream& stream,
                 std::vector<int> slots, ops::Ins in, ops::Outs out);

  // The first piece is read: what fails here has changed nothing.
  void begin(SpillFile& file, std::span<std::byte> memory);
  // `in` and `out` are the whole arrays, but for those of the file. Nothing is allocated.
  void run(SpillFile& file, ops::Ins in, ops::Outs out, std::span<std::byte> memory);

 private:
  struct Array {
    std::size_t in, out;
    int slot;
    std::uint64_t unit;           // bytes
    std::uint64_t offset, place;  // of its pieces in memory, and from one to the next
    SpillFile::Ticket reads[plan::kPiecesAtOnce], writes[plan::kPiecesAtOnce];
  };
  std::int64_t size(std::int64_t piece) const;
  std::uint64_t unit(const Spec& spec) const;  // bytes of an element, or of a row
  void shape(Spec& spec, std::int64_t units) const;
  std::span<std::byte> place(const Array& a, std::int64_t piece, std::byte* memory) const;
  void fetch(SpillFile& file, std::int64_t piece, std::byte* memory);
  void cut(std::int64_t piece, ops::Ins in, ops::Outs out, std::byte* memory);

  ops::AnyOp op_;
  std::size_t cut_from_;
  bool whole_rows_;
  std::int64_t piece_, units_;  // elements or rows of a piece, and of all
  std::uint64_t memory_;        // bytes of all pieces; what follows is the op's
  std::vector<Array> arrays_;
  std::vector<Spec> in_specs_, out_specs_;  // of the piece at hand
  std::vector<ops::In> in_;
  std::vector<ops::Out> out_;
};

}  // namespace ebb::exec
