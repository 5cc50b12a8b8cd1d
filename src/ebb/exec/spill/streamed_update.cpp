#include "ebb/exec/spill/streamed_update.hpp"

#include <algorithm>

#include "ebb/trace/gradient_blocks.hpp"

namespace ebb::exec {
namespace {

using plan::kPiecesAtOnce;

std::uint64_t turn(std::int64_t piece) { return static_cast<std::uint64_t>(piece) % kPiecesAtOnce; }

}  // namespace

StreamedUpdate::StreamedUpdate(const trace::Call& call, const plan::Lowered::Stream& stream,
                               std::vector<int> slots, ops::Ins in, ops::Outs out)
    : op_(call.op),
      cut_from_(stream.cut_from),
      whole_rows_(stream.whole_rows),
      memory_(stream.memory),
      in_(in.begin(), in.end()),
      out_(out.begin(), out.end()) {
  const Spec& whole = *out[0].spec;
  units_ = whole_rows_ ? whole.shape[0] : whole.size();
  piece_ = stream.piece / (whole.size() / units_);
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const plan::Lowered::Stream::Array& a = stream.arrays[i];
    const std::uint64_t place = stream.place(size_of(out[a.out].dtype()));
    arrays_.push_back({a.in, a.out, slots[i], unit(*out[a.out].spec), offset, place, {}, {}});
    offset += kPiecesAtOnce * place;
  }
  for (const ops::In& i : in) in_specs_.push_back(*i.spec);
  for (const ops::Out& o : out) out_specs_.push_back(*o.spec);
  for (std::size_t i = cut_from_; i < in_.size(); ++i) in_[i].spec = &in_specs_[i];
  for (std::size_t i = 0; i < out_.size(); ++i) out_[i].spec = &out_specs_[i];
}

std::uint64_t StreamedUpdate::unit(const Spec& spec) const {
  return whole_rows_ ? spec.bytes() / static_cast<std::uint64_t>(spec.shape[0])
                     : size_of(spec.dtype);
}

void StreamedUpdate::shape(Spec& spec, std::int64_t units) const {
  if (!whole_rows_) {
    spec.shape = Shape{units};
    return;
  }
  std::int64_t dims[Shape::kMaxRank];
  std::copy(spec.shape.begin(), spec.shape.end(), dims);
  dims[0] = units;
  spec.shape = Shape(std::span(dims, static_cast<std::size_t>(spec.rank())));
}

std::int64_t StreamedUpdate::size(std::int64_t piece) const {
  return std::min(piece_, units_ - piece * piece_);
}

std::span<std::byte> StreamedUpdate::place(const Array& a, std::int64_t piece,
                                           std::byte* memory) const {
  return {memory + a.offset + turn(piece) * a.place,
          static_cast<std::uint64_t>(size(piece)) * a.unit};
}

void StreamedUpdate::fetch(SpillFile& file, std::int64_t piece, std::byte* memory) {
  for (Array& a : arrays_) {
    file.wait(a.writes[turn(piece)]);  // of the piece that was there before
    a.reads[turn(piece)] = file.read(a.slot, static_cast<std::uint64_t>(piece * piece_) * a.unit,
                                     place(a, piece, memory));
  }
}

void StreamedUpdate::cut(std::int64_t piece, ops::Ins in, ops::Outs out, std::byte* memory) {
  const auto first = static_cast<std::uint64_t>(piece * piece_);
  for (std::size_t i = 0; i < in.size(); ++i) in_[i].data = in[i].data;
  for (std::size_t i = cut_from_; i < in.size(); ++i) {
    shape(in_specs_[i], size(piece));
    in_[i].data = in[i].as<std::byte>() + first * unit(*in[i].spec);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    shape(out_specs_[i], size(piece));
    out_[i].data = out[i].as<std::byte>() + first * unit(*out[i].spec);
  }
  for (const Array& a : arrays_) in_[a.in].data = out_[a.out].data = place(a, piece, memory).data();
}

void StreamedUpdate::begin(SpillFile& file, std::span<std::byte> memory) {
  for (Array& a : arrays_) std::fill(std::begin(a.writes), std::end(a.writes), SpillFile::Ticket{});
  fetch(file, 0, memory.data());
  for (const Array& a : arrays_) file.wait(a.reads[0]);
}

void StreamedUpdate::run(SpillFile& file, ops::Ins in, ops::Outs out, std::span<std::byte> memory) {
  for (std::int64_t piece = 0; piece * piece_ < units_; ++piece) {
    if ((piece + 1) * piece_ < units_) fetch(file, piece + 1, memory.data());
    for (const Array& a : arrays_) file.wait(a.reads[turn(piece)]);
    cut(piece, in, out, memory.data());
    const ops::AnyOp op = whole_rows_ ? trace::at_row(op_, piece * piece_) : op_;
    op.type().run(op.attributes(), in_, out_, memory.subspan(memory_));
    for (Array& a : arrays_)
      a.writes[turn(piece)] =
          file.write(a.slot, static_cast<std::uint64_t>(piece * piece_) * a.unit,
                     place(a, piece, memory.data()));
  }
  for (const Array& a : arrays_)
    for (const SpillFile::Ticket ticket : a.writes) file.wait(ticket);
}

}  // namespace ebb::exec
