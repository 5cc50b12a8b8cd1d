#include "ebb/dist/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "ebb/dist/errors.hpp"

namespace ebb::dist {
namespace {

// Tags of the control channel: rounds of votes from 0 on, then these.
constexpr int kGatherHead = 100, kGatherBytes = 101, kSpreadHead = 102, kSpreadBytes = 103;

Address with(int peer, int tag) { return {peer, Channel::control, tag}; }

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

Collectives::Head Collectives::head(const char* what, std::uint64_t bytes, bool yes) const {
  Head h;
  h.yes = yes;
  h.number = calls_;
  h.bytes = bytes;
  std::strncpy(h.what, what, sizeof h.what - 1);
  return h;
}

void Collectives::check(const Head& theirs, const Head& mine, int from) const {
  if (theirs.magic == __builtin_bswap32(mine.magic))
    throw Mismatch(fmt::format("dist: rank {} has the other byte order than rank {}; ranks of one "
                               "job need the same kind of machine",
                               from, post_.rank()),
                   true);
  if (theirs.magic != mine.magic)
    throw Mismatch(fmt::format("dist: rank {} has another version of Ebb than rank {}; start the "
                               "same program on all ranks",
                               from, post_.rank()),
                   true);
  if (theirs.number == mine.number && std::memcmp(theirs.what, mine.what, sizeof mine.what) == 0)
    return;
  throw Error(
      fmt::format("dist: rank {} is at {} (call {}), and rank {} at {} (call {}); all ranks must "
                  "make the same calls in the same order",
                  from, std::string_view(theirs.what, strnlen(theirs.what, sizeof theirs.what)),
                  theirs.number, post_.rank(), mine.what, mine.number));
}

bool Collectives::vote(bool yes, const char* what) {
  const std::lock_guard lock(lock_);
  ++calls_;
  return exchange(yes, what);
}

bool Collectives::exchange(bool yes, const char* what) {
  const int rank = post_.rank(), size = post_.size();
  int round = 0;
  for (int far = 1; far < size; far *= 2, ++round) {
    Head mine = head(what, 0, yes), theirs;
    const int from = (rank + size - far) % size;
    Message out = Message::to(with((rank + far) % size, round), bytes_of(mine));
    Message in = Message::from(with(from, round), bytes_of(theirs));
    post_.start(out);
    post_.start(in);
    post_.wait(in);
    post_.wait(out);
    check(theirs, mine, from);
    yes = yes && theirs.yes;
  }
  return yes;
}

std::vector<std::string> Collectives::gather(std::string_view mine, const char* what) {
  if (mine.size() > kLargestValue)
    throw Error(fmt::format("dist: {} bytes are gathered from a rank; values are small, at most {}",
                            mine.size(), kLargestValue));
  const std::lock_guard lock(lock_);
  ++calls_;
  exchange(true, what);
  const int rank = post_.rank(), size = post_.size();
  // All of them: (length, bytes) by rank.
  memory::Buffer all;
  std::uint64_t total = 0;
  if (rank != 0) {
    Head h = head(what, mine.size());
    Message before = Message::to(with(0, kGatherHead), bytes_of(h));
    Message value = Message::to(with(0, kGatherBytes), std::as_bytes(std::span(mine)));
    post_.start(before);
    post_.start(value);
    post_.wait(before);
    post_.wait(value);
  } else {
    std::vector<Head> heads(static_cast<std::size_t>(size), head(what, mine.size()));
    const Head own = heads[0];
    const auto of = [&](int r) -> Head& { return heads[static_cast<std::size_t>(r)]; };
    for (int r = 1; r < size; ++r) {
      Message in = Message::from(with(r, kGatherHead), bytes_of(of(r)));
      post_.start(in);
      post_.wait(in);
      check(of(r), own, r);
      if (of(r).bytes > kLargestValue)
        throw Error(fmt::format("dist: rank {} sends {} bytes", r, of(r).bytes));
    }
    for (const Head& h : heads) total += sizeof h.bytes + h.bytes;
    all = memory::Buffer(total, "gathered values", Category::data);
    std::byte* at = all.data();
    for (int r = 0; r < size; ++r) {
      std::memcpy(at, &of(r).bytes, sizeof of(r).bytes);
      at += sizeof of(r).bytes;
      if (r == 0) {
        if (!mine.empty()) std::memcpy(at, mine.data(), mine.size());
      } else {
        Message in = Message::from(with(r, kGatherBytes), {at, of(r).bytes});
        post_.start(in);
        post_.wait(in);
      }
      at += of(r).bytes;
    }
  }
  spread(all, head(what, total));
  std::vector<std::string> values;
  for (const std::byte* at = all.data(); static_cast<int>(values.size()) < size;) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, at, sizeof bytes);
    at += sizeof bytes;
    values.emplace_back(reinterpret_cast<const char*>(at), bytes);
    at += bytes;
  }
  return values;
}

std::string Collectives::broadcast(std::string_view of_first, const char* what) {
  if (of_first.size() > kLargestValue)
    throw Error(fmt::format("dist: {} bytes are broadcast; values are small, at most {}",
                            of_first.size(), kLargestValue));
  const std::lock_guard lock(lock_);
  ++calls_;
  exchange(true, what);
  memory::Buffer value;
  if (post_.rank() == 0) {
    value = memory::Buffer(of_first.size(), "broadcast value", Category::data);
    if (!of_first.empty()) std::memcpy(value.data(), of_first.data(), of_first.size());
  }
  spread(value, head(what, of_first.size()));
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

// A binomial tree: rank r has it from r without its highest bit, and hands it on to r + 2^k.
void Collectives::spread(memory::Buffer& all, Head mine) {
  const int rank = post_.rank(), size = post_.size();
  int highest = 1;
  while (highest <= rank) highest *= 2;
  if (rank != 0) {
    const int from = rank - highest / 2;
    Head theirs;
    Message before = Message::from(with(from, kSpreadHead), bytes_of(theirs));
    post_.start(before);
    post_.wait(before);
    check(theirs, mine, from);
    mine = theirs;
    all = memory::Buffer(theirs.bytes, "spread value", Category::data);
    Message value = Message::from(with(from, kSpreadBytes), {all.data(), all.size()});
    post_.start(value);
    post_.wait(value);
  }
  for (int far = highest; rank + far < size; far *= 2) {
    Message before = Message::to(with(rank + far, kSpreadHead), bytes_of(mine));
    Message value = Message::to(with(rank + far, kSpreadBytes), {all.data(), all.size()});
    post_.start(before);
    post_.start(value);
    post_.wait(before);
    post_.wait(value);
  }
}

}  // namespace ebb::dist
