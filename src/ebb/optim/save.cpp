#include "ebb/optim/save.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "ebb/base/error.hpp"
#include "ebb/base/file.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/base/promises.hpp"
#include "ebb/kernels/checksum.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/tracer.hpp"
#include "ebb/tensor/rewrite.hpp"
#include "ebb/tensor/safetensors.hpp"

namespace ebb::optim {
namespace {

constexpr std::uint64_t kChunk = Rewrite::kChunk;
constexpr char kFormat[] = "ebb 1", kRandom[] = "ebb.random";
const Spec kRandomSpec{{3}, DType::i64};  // seed, step, draw

// Where the checksum's digits stand in the front: they are known when all is written.
constexpr char kChecksum[] = "checksum", kNoDigits[] = "0000000000000000";
std::size_t digits_at(const std::string& front) {
  const std::string before = "\"checksum\":\"";  // no name has it: its quotes would be escaped
  const std::size_t at = front.find(before);
  return at == front.npos ? at : at + before.size();
}

constexpr std::size_t kLeast =
    InitialValue::kChunk * sizeof(double);  // of a chunk, but for the last

// Over the front, without its digits, then over the tensors, each from its own start in pieces of
// kLeast, however much is moved at once.
class Sum {
 public:
  explicit Sum(std::string front) {
    const std::size_t at = digits_at(front);
    if (at != front.npos && at + std::strlen(kNoDigits) <= front.size())
      front.replace(at, std::strlen(kNoDigits), kNoDigits);
    add(std::as_bytes(std::span(front)));
  }
  void add(std::span<const std::byte> chunk) {
    for (; !chunk.empty(); chunk = chunk.subspan(std::min(kLeast, chunk.size())))
      sum_ = kernels::checksum(chunk.data(), std::min(kLeast, chunk.size()), sum_);
  }
  std::string digits() const { return fmt::format("{:016x}", sum_); }

 private:
  std::uint64_t sum_ = 0;
};

struct Named {
  std::string name;
  Variable variable;
};

// For what is moved at once: no more than the largest of them has, so that little is enough for a little
// one, and less where there is not so much room. Whole chunks of InitialValue, where it is not all of it.
memory::Buffer chunk_for(const std::vector<Named>& all, const char* site) {
  std::size_t most = sizeof(std::int64_t[4]);
  for (const Named& n : all) most = std::max<std::size_t>(most, n.variable.spec().bytes());
  return memory::up_to(most > kLeast ? kChunk : most, std::min(kLeast, most), site,
                       Category::workspace);
}

// A name that an earlier part has already is told apart by the number of its part; a variable that an
// earlier part has already is there.
std::vector<Named> named(Parts parts) {
  std::vector<Named> all;
  std::map<std::string, int> names{{kRandom, 0}};
  std::map<Variable, int> known;
  for (std::size_t p = 0; p < parts.size(); ++p)
    for (const Variable& v : parts[p]) {
      if (!known.try_emplace(v, 0).second) continue;
      std::string name = v.name();
      if (names.contains(name)) name += fmt::format("#{}", p + 1);
      if (!names.try_emplace(name, 0).second)
        throw Error(fmt::format("save: part {} has two variables {}; give them names of their own",
                                p + 1, v.name()));
      all.push_back({std::move(name), v});
    }
  return all;
}

void refuse_in_trace(const char* what) {
  if (ops::tracer())
    throw Error(
        fmt::format("{}: a compiled function computes and does not touch files; call it "
                    "between steps",
                    what));
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw FileError(fmt::format("cannot load \"{}\": {}", path, why));
}

// Pages of a file that is gone through once leave the cache as it goes: they are memory, too.
class Passing {
 public:
  explicit Passing(bool written) : written_(written) {}
  void reached(File& file, std::uint64_t position, bool end = false) {
    constexpr std::uint64_t kPage = 4096, kAtOnce = 4 * kChunk;
    if (position - done_ < kAtOnce && !end) return;
    const std::uint64_t to = position / kPage * kPage;
    if (to <= done_) return;
    written_ ? file.write_back(done_, to - done_) : file.drop_cached(done_, to - done_);
    done_ = to;
  }

 private:
  bool written_;
  std::uint64_t done_ = 0;
};

// Calls f(part, at) for each chunk of the tensor's bytes, read from the file.
template <class F>
void read_chunks(File& file, std::uint64_t from, const StoredTensor& t, std::span<std::byte> chunk,
                 Passing& passing, F f) {
  for (std::uint64_t at = 0; at < t.spec.bytes(); at += chunk.size()) {
    const auto part = chunk.first(std::min<std::uint64_t>(chunk.size(), t.spec.bytes() - at));
    file.read_at(from + t.offset + at, part);
    f(std::span<const std::byte>(part), at);
    passing.reached(file, from + t.offset + at + part.size());
  }
}

// A file that holds these, and nothing else where all is wanted. For each of its tensors, which of the
// variables takes it, or kNobody.
constexpr std::size_t kNobody = ~std::size_t{0};
std::vector<std::size_t> matched(const std::string& path, const Safetensors& found,
                                 const std::vector<Named>& wanted, bool all) {
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < wanted.size(); ++i) index[wanted[i].name] = i;
  std::vector<std::size_t> takes;
  const StoredTensor* extra = nullptr;
  std::size_t extras = 0, taken = 0;
  bool random = false;
  for (const StoredTensor& t : found.tensors) {
    const auto at = index.find(t.name);
    takes.push_back(at == index.end() ? kNobody : at->second);
    if (at != index.end()) {
      const Spec& spec = wanted[at->second].variable.spec();
      if (t.spec != spec)
        refuse(path,
               fmt::format("{} is {} in it, and {} in the program; load it into the model that "
                           "was saved",
                           t.name, to_string(t.spec), to_string(spec)));
      ++taken;
    } else if (t.name == kRandom) {
      random = t.spec == kRandomSpec;
    } else if (!extras++) {
      extra = &t;
    }
  }
  if (taken < wanted.size())
    for (const Named& n : wanted)
      if (std::none_of(found.tensors.begin(), found.tensors.end(),
                       [&](const StoredTensor& t) { return t.name == n.name; }))
        refuse(path,
               fmt::format("it has no {} ({} of {} variables are missing); load the parts that "
                           "were saved",
                           n.name, wanted.size() - taken, wanted.size()));
  if (all && extra)
    refuse(path,
           fmt::format("it also holds {} and {} more that the parts given do not have; give all "
                       "parts that were saved, or take some with load_only",
                       extra->name, extras - 1));
  if (all && !random) refuse(path, "it does not say where random draws stood");
  return takes;
}

void load_into(const std::string& path, Parts parts, bool all) {
  refuse_in_trace("load");
  const std::vector<Named> wanted = named(parts);
  File file = File::open(path);
  std::string front;
  const Safetensors found = read_safetensors_front(file, &front);
  const auto format = found.metadata.find("format"), sum = found.metadata.find(kChecksum);
  const bool ours = format != found.metadata.end() && format->second == kFormat;
  if (all && !ours)
    refuse(path, "it was not written by save(); take tensors of other files with load_only");
  const std::vector<std::size_t> takes = matched(path, found, wanted, all);

  const memory::Borrowing between_steps;
  const memory::Buffer buffer = chunk_for(wanted, "load");
  const std::span<std::byte> chunk(buffer.data(), buffer.size());
  std::int64_t draws[3] = {};
  const auto check = [&](const Sum& now) {
    if (ours && (sum == found.metadata.end() || sum->second != now.digits()))
      refuse(path,
             fmt::format("its bytes sum up to {}, where it says {}; the file is damaged",
                         now.digits(), sum == found.metadata.end() ? "nothing" : sum->second));
  };
  if (ours) {
    Sum now(front);
    Passing passing(false);
    for (const StoredTensor& t : found.tensors)
      read_chunks(file, found.data, t, chunk, passing, [&](auto part, std::uint64_t) {
        now.add(part);
        if (t.name == kRandom && part.size() == sizeof draws)
          std::memcpy(draws, part.data(), sizeof draws);
      });
    check(now);
  }
  std::vector<Variable> variables;
  for (const Named& n : wanted) variables.push_back(n.variable);
  Rewrite rewrite(std::move(variables));
  Sum now(front);
  Passing passing(false);
  for (std::size_t i = 0; i < takes.size(); ++i) {
    if (takes[i] == kNobody && !ours) continue;
    read_chunks(file, found.data, found.tensors[i], chunk, passing,
                [&](auto part, std::uint64_t at) {
                  now.add(part);  // once more: the file may have changed since
                  if (takes[i] != kNobody) rewrite.write(takes[i], part, at);
                });
  }
  check(now);
  rewrite.commit();
  if (!all) return;
  random::State state = random::state();
  state.seed = static_cast<std::uint64_t>(draws[0]);
  state.step = static_cast<std::uint64_t>(draws[1]);
  state.draw = static_cast<std::uint64_t>(draws[2]);
  random::restore(state);
}

}  // namespace

void save_parts(const std::string& path, Parts parts) {
  refuse_in_trace("save");
  const std::vector<Named> all = named(parts);
  const random::State now = random::state();
  const std::int64_t draws[3] = {static_cast<std::int64_t>(now.seed),
                                 static_cast<std::int64_t>(now.step),
                                 static_cast<std::int64_t>(now.draw)};
  Safetensors layout;
  layout.metadata = {{"format", kFormat}, {kChecksum, kNoDigits}};
  for (const Named& n : all) layout.tensors.push_back({n.name, n.variable.spec()});
  layout.tensors.push_back({kRandom, kRandomSpec});
  const std::string front = safetensors_front(layout);

  const memory::Borrowing between_steps;
  const memory::Buffer buffer = chunk_for(all, "save");
  const std::span<std::byte> chunk(buffer.data(), buffer.size());
  Sum sum(front);
  AtomicFile out(path);
  out.file().write(front);
  std::uint64_t position = front.size();
  Passing passing(true);
  const auto put = [&](std::span<const std::byte> part) {
    sum.add(part);
    out.file().write(part);
    passing.reached(out.file(), position += part.size());
  };
  for (const Named& n : all) {
    const std::uint64_t bytes = n.variable.spec().bytes();
    for (std::uint64_t at = 0; at < bytes; at += chunk.size()) {
      const auto part = chunk.first(std::min<std::uint64_t>(chunk.size(), bytes - at));
      n.variable.read(part, at);
      put(part);
    }
  }
  put(std::as_bytes(std::span(draws)));
  passing.reached(out.file(), position, true);
  const std::string digits = sum.digits();
  out.file().write_at(digits_at(front), std::as_bytes(std::span(digits)));
  out.commit();
}

void load_parts(const std::string& path, Parts parts) { load_into(path, parts, true); }
void load_parts_only(const std::string& path, Parts parts) { load_into(path, parts, false); }

}  // namespace ebb::optim
