#include "ebb/io/array/variable_file.hpp"

#include <algorithm>

#include "ebb/tensor/rewrite.hpp"

namespace ebb {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kAtOnce = std::uint64_t{2}
                                  << 20;  // of pages on their way; as many are being made

}  // namespace

memory::Buffer chunk_for(std::span<const NamedVariable> all, const char* site) {
  std::size_t most = sizeof(std::int64_t[4]);
  for (const NamedVariable& n : all) most = std::max<std::size_t>(most, n.variable.spec().bytes());
  return chunk_for(most, site);
}

memory::Buffer chunk_for(std::size_t largest, const char* site) {
  return memory::up_to(largest > kPiece ? Rewrite::kChunk : largest, std::min(kPiece, largest),
                       site, Category::workspace);
}

void PassingPages::reached(std::uint64_t position) {
  if (position - begun_ < kAtOnce) return;
  const std::uint64_t to = position / kPage * kPage;
  if (written_) file_.start_write_back(begun_, to - begun_);
  leave(written_ ? begun_ : to);  // what was begun a while ago
  begun_ = to;
}

void PassingPages::end(std::uint64_t position) { leave(position / kPage * kPage); }

void PassingPages::leave(std::uint64_t to) {
  if (to <= done_) return;
  written_ ? file_.write_back(done_, to - done_) : file_.drop_cached(done_, to - done_);
  done_ = to;
}

Safetensors layout_of(std::span<const NamedVariable> all) {
  Safetensors layout;
  for (const NamedVariable& n : all) layout.tensors.push_back({n.name, n.variable.spec()});
  return layout;
}

void write_variables(File& file, std::span<const NamedVariable> all, std::span<std::byte> chunk,
                     const Chunks& passed) {
  std::uint64_t position = file.position();
  PassingPages pages(file, true);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t bytes = all[i].variable.spec().bytes();
    for (std::uint64_t at = 0; at < bytes; at += chunk.size()) {
      const auto part = chunk.first(std::min<std::uint64_t>(chunk.size(), bytes - at));
      all[i].variable.read(part, at);
      passed(i, part);
      file.write(part);
      pages.reached(position += part.size());
    }
  }
  pages.end(position);
}

void read_tensors(File& file, const Safetensors& front, std::span<std::byte> chunk,
                  const std::function<bool(std::size_t tensor)>& wanted, const Chunks& passed) {
  PassingPages pages(file, false);
  for (std::size_t i = 0; i < front.tensors.size(); ++i) {
    if (!wanted(i)) continue;
    const std::uint64_t bytes = front.tensors[i].spec.bytes();
    const std::uint64_t from = front.data + front.tensors[i].offset;
    for (std::uint64_t at = 0; at < bytes; at += chunk.size()) {
      const auto part = chunk.first(std::min<std::uint64_t>(chunk.size(), bytes - at));
      file.read_at(from + at, part);
      passed(i, part);
      pages.reached(from + at + part.size());
    }
  }
}

}  // namespace ebb
