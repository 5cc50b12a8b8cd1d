#include "ebb/optim/save.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/io/array/variable_file.hpp"
#include "ebb/kernels/checksum.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/saved_parts.hpp"
#include "ebb/tensor/rewrite.hpp"

namespace ebb::optim {
namespace {

constexpr char kFormat[] = "ebb 1";

// Where the checksum's digits stand in the front: they are known when all is written.
constexpr char kChecksum[] = "checksum", kNoDigits[] = "0000000000000000";
std::size_t digits_at(const std::string& front) {
  const std::string before = "\"checksum\":\"";  // no name has it: its quotes would be escaped
  const std::size_t at = front.find(before);
  return at == front.npos ? at : at + before.size();
}

// Over the front, without its digits, then over the tensors, each from its own start piece by piece,
// however much is moved at once.
class Sum {
 public:
  explicit Sum(std::string front) {
    const std::size_t at = digits_at(front);
    if (at != front.npos && at + std::strlen(kNoDigits) <= front.size())
      front.replace(at, std::strlen(kNoDigits), kNoDigits);
    add(std::as_bytes(std::span(front)));
  }
  void add(std::span<const std::byte> chunk) {
    for (; !chunk.empty(); chunk = chunk.subspan(std::min(kPiece, chunk.size())))
      sum_ = kernels::checksum(chunk.data(), std::min(kPiece, chunk.size()), sum_);
  }
  std::string digits() const { return fmt::format("{:016x}", sum_); }

 private:
  std::uint64_t sum_ = 0;
};

bool is_ours(const Safetensors& found) {
  const auto format = found.metadata.find("format");
  return format != found.metadata.end() && format->second == kFormat;
}

void check(const std::string& path, const Safetensors& found, const Sum& now) {
  const auto sum = found.metadata.find(kChecksum);
  if (sum != found.metadata.end() && sum->second == now.digits()) return;
  refuse(path, fmt::format("its bytes sum up to {}, where it says {}; the file is damaged",
                           now.digits(), sum == found.metadata.end() ? "nothing" : sum->second));
}

// To the last byte, through the chunk.
void verify(File& file, const Safetensors& found, const std::string& front,
            std::span<std::byte> chunk) {
  Sum now(front);
  read_tensors(
      file, found, chunk, [](std::size_t) { return true; },
      [&](std::size_t, auto part) { now.add(part); });
  check(file.path(), found, now);
}

std::string front_of(std::span<const NamedVariable> all,
                     const std::map<std::string, std::string>& metadata) {
  Safetensors layout = layout_of(all);
  layout.metadata = metadata;
  layout.metadata["format"] = kFormat;
  layout.metadata[kChecksum] = kNoDigits;
  return safetensors_front(layout);
}

// A file that holds these, and nothing else.
void refuse_more(const std::string& path, const Safetensors& found,
                 const std::vector<std::size_t>& takes) {
  const auto extras = std::count(takes.begin(), takes.end(), kNobody);
  if (extras == 0) return;
  const auto first = std::find(takes.begin(), takes.end(), kNobody) - takes.begin();
  refuse(path,
         fmt::format("it also holds {} and {} more that the parts given do not have; give all "
                     "parts that were saved, or take some with load_only",
                     found.tensors[static_cast<std::size_t>(first)].name, extras - 1));
}

void load_into(const std::string& path, Parts parts, bool all) {
  refuse_in_trace("load");
  std::vector<NamedVariable> wanted = named(parts);
  File file = File::open(path);
  const memory::Borrowing between_steps;
  if (all) wanted.push_back(random_draws());
  // What a compiled program sets aside for its plans is far more than names and shapes of its variables.
  const std::uint64_t known = front_of(wanted, {}).size();
  std::string front;
  const Safetensors found = read_safetensors_front(file, &front, known);
  const bool ours = is_ours(found);
  if (all && !ours)
    refuse(path, "it was not written by save(); take tensors of other files with load_only");

  const std::vector<std::size_t> takes = takers(path, found.tensors, wanted);
  if (all) refuse_more(path, found, takes);
  const memory::Buffer buffer = chunk_for(wanted, "load");
  const std::span<std::byte> chunk(buffer.data(), buffer.size());
  if (ours) verify(file, found, front, chunk);
  std::vector<Variable> variables;
  for (const NamedVariable& n : wanted) variables.push_back(n.variable);
  Rewrite rewrite(std::move(variables));
  Sum now(front);
  std::vector<std::uint64_t> written(wanted.size());
  read_tensors(
      file, found, chunk, [&](std::size_t i) { return ours || takes[i] != kNobody; },
      [&](std::size_t i, auto part) {
        now.add(part);  // once more: the file may have changed since
        if (takes[i] == kNobody) return;
        rewrite.write(takes[i], part, written[takes[i]]);
        written[takes[i]] += part.size();
      });
  if (ours) check(path, found, now);
  rewrite.commit();
  if (all) random::restore(draws_in(wanted.back().variable));
}

void write_saved(const std::string& path, std::span<const NamedVariable> all,
                 const std::map<std::string, std::string>& metadata) {
  const std::string front = front_of(all, metadata);

  const memory::Buffer buffer = chunk_for(all, "save");
  Sum sum(front);
  AtomicFile out(path);
  out.file().write(front);
  write_variables(out.file(), all, {buffer.data(), buffer.size()},
                  [&](std::size_t, auto part) { sum.add(part); });
  const std::string digits = sum.digits();
  out.file().write_at(digits_at(front), std::as_bytes(std::span(digits)));
  out.commit();
}

}  // namespace

void save_parts(const std::string& path, Parts parts) {
  refuse_in_trace("save");
  std::vector<NamedVariable> all = named(parts);
  const memory::Borrowing between_steps;
  all.push_back(random_draws());
  write_saved(path, all, {});
}

void save_parts_only(const std::string& path, Parts parts,
                     const std::map<std::string, std::string>& metadata) {
  refuse_in_trace("save");
  const memory::Borrowing between_steps;
  write_saved(path, named(parts), metadata);
}

bool verify_saved(const std::string& path) {
  File file = File::open(path);
  std::string front;
  const Safetensors found = read_safetensors_front(file, &front);
  if (!is_ours(found)) return false;
  std::size_t largest = 1;
  for (const StoredTensor& t : found.tensors) largest = std::max(largest, t.spec.bytes());
  const memory::Borrowing between_steps;
  const memory::Buffer buffer = chunk_for(largest, "verify");
  verify(file, found, front, {buffer.data(), buffer.size()});
  return true;
}

void load_parts(const std::string& path, Parts parts) { load_into(path, parts, true); }
void load_parts_only(const std::string& path, Parts parts) { load_into(path, parts, false); }

}  // namespace ebb::optim
