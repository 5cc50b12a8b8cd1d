#include "ebb/exec/stream.hpp"

#include <algorithm>

namespace ebb::exec {
namespace {

using plan::kPiece;
using plan::kPiecesAtOnce;

std::uint64_t turn(std::int64_t piece) { return static_cast<std::uint64_t>(piece) % kPiecesAtOnce; }

}  // namespace

Stream::Stream(const trace::Call& call, const plan::Lowered::Stream& stream, std::vector<int> slots,
               ops::Ins in, ops::Outs out)
    : type_(call.op.type()),
      op_(call.op.attributes()),
      cut_from_(stream.cut_from),
      elements_(out[0].size()),
      in_(in.begin(), in.end()),
      out_(out.begin(), out.end()) {
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const plan::Lowered::Stream::Array& a = stream.arrays[i];
    const std::uint64_t element = size_of(out[a.out].dtype());
    arrays_.push_back({a.in, a.out, slots[i], element, offset, {}, {}});
    offset += kPiecesAtOnce * static_cast<std::uint64_t>(kPiece) * element;
  }
  for (const ops::In& i : in) in_specs_.push_back(*i.spec);
  for (const ops::Out& o : out) out_specs_.push_back(*o.spec);
  for (std::size_t i = cut_from_; i < in_.size(); ++i) in_[i].spec = &in_specs_[i];
  for (std::size_t i = 0; i < out_.size(); ++i) out_[i].spec = &out_specs_[i];
}

std::int64_t Stream::size(std::int64_t piece) const {
  return std::min(kPiece, elements_ - piece * kPiece);
}

std::span<std::byte> Stream::place(const Array& a, std::int64_t piece, std::byte* memory) const {
  return {memory + a.offset + turn(piece) * static_cast<std::uint64_t>(kPiece) * a.element,
          static_cast<std::uint64_t>(size(piece)) * a.element};
}

void Stream::fetch(Spill& file, std::int64_t piece, std::byte* memory) {
  for (Array& a : arrays_) {
    file.wait(a.writes[turn(piece)]);  // of the piece that was there before
    a.reads[turn(piece)] = file.read(a.slot, static_cast<std::uint64_t>(piece * kPiece) * a.element,
                                     place(a, piece, memory));
  }
}

void Stream::cut(std::int64_t piece, ops::Ins in, ops::Outs out, std::byte* memory) {
  const Shape shape{size(piece)};
  const auto first = static_cast<std::uint64_t>(piece * kPiece);
  for (std::size_t i = 0; i < in.size(); ++i) in_[i].data = in[i].data;
  for (std::size_t i = cut_from_; i < in.size(); ++i) {
    in_specs_[i].shape = shape;
    in_[i].data = in[i].as<std::byte>() + first * size_of(in[i].dtype());
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out_specs_[i].shape = shape;
    out_[i].data = out[i].as<std::byte>() + first * size_of(out[i].dtype());
  }
  for (const Array& a : arrays_) in_[a.in].data = out_[a.out].data = place(a, piece, memory).data();
}

void Stream::begin(Spill& file, std::span<std::byte> memory) {
  for (Array& a : arrays_) std::fill(std::begin(a.writes), std::end(a.writes), Spill::Ticket{});
  fetch(file, 0, memory.data());
  for (const Array& a : arrays_) file.wait(a.reads[0]);
}

void Stream::run(Spill& file, ops::Ins in, ops::Outs out, std::span<std::byte> memory) {
  for (std::int64_t piece = 0; piece * kPiece < elements_; ++piece) {
    if ((piece + 1) * kPiece < elements_) fetch(file, piece + 1, memory.data());
    for (const Array& a : arrays_) file.wait(a.reads[turn(piece)]);
    cut(piece, in, out, memory.data());
    type_.run(op_, in_, out_, {});
    for (Array& a : arrays_)
      a.writes[turn(piece)] =
          file.write(a.slot, static_cast<std::uint64_t>(piece * kPiece) * a.element,
                     place(a, piece, memory.data()));
  }
  for (const Array& a : arrays_)
    for (const Spill::Ticket ticket : a.writes) file.wait(ticket);
}

}  // namespace ebb::exec
