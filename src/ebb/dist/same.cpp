// What must be the same on all ranks, and where it is not, in which line.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "ebb/base/sha256.hpp"
#include "ebb/dist/collectives.hpp"
#include "ebb/dist/world.hpp"

namespace ebb::dist {
namespace {

// What is longer than this is compared by its hash first.
constexpr std::size_t kShort = 4096;
constexpr char kHash = 1;
std::string hash_of(const std::string& text) {
  Sha256 sum;
  sum.add(std::as_bytes(std::span(text)));
  return kHash + sum.hex();
}
bool is_hash(const std::string& value) { return value.starts_with(kHash); }

// The first line of a text that is not in the other one; "": there is none.
std::string own_line(const std::string& text, const std::string& other) {
  std::set<std::string> others;
  std::istringstream theirs(other);
  for (std::string line; std::getline(theirs, line);) others.insert(line);
  std::istringstream ours(text);
  for (std::string line; std::getline(ours, line);)
    if (!others.contains(line)) return line;
  return "";
}

}  // namespace

void World::check_same(std::string_view name, std::string_view fingerprint) {
  if (!job_) return;
  const std::string text = fmt::format("{}\n{}", name, fingerprint);
  std::vector<std::string> all = gather(text.size() <= kShort ? text : hash_of(text));
  if (std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) == all.end()) return;
  if (std::any_of(all.begin(), all.end(), is_hash)) all = gather(text.substr(0, kLargestValue));
  std::map<std::string, std::vector<int>> by_value;
  for (int r = 0; r < size_; ++r) by_value[all[static_cast<std::size_t>(r)]].push_back(r);
  told_on_all();
  if (name.starts_with("the ")) name.remove_prefix(4);
  if (by_value.size() == 1)
    throw Mismatch(
        fmt::format(
            "dist: ranks differ in the {}, behind its first {} bytes; all must have the same", name,
            kLargestValue),
        first());
  int other = 1;
  while (all[static_cast<std::size_t>(other)] == all[0]) ++other;
  const auto described = [&](int rank, int than) {
    const std::vector<int>& ranks = by_value[all[static_cast<std::size_t>(rank)]];
    const std::string line =
        own_line(all[static_cast<std::size_t>(rank)], all[static_cast<std::size_t>(than)]);
    return fmt::format(
        "rank{} {} ({}) {}", ranks.size() == 1 ? "" : "s",
        fmt::join(ranks.begin(), ranks.begin() + std::min<std::ptrdiff_t>(8, std::ssize(ranks)),
                  ", "),
        host(rank), line.empty() ? "none of it" : fmt::format("\"{}\"", line.substr(0, 100)));
  };
  throw Mismatch(
      fmt::format("dist: ranks differ in the {}: {}, {}{}; all must have the same", name,
                  described(0, other), described(other, 0), by_value.size() > 2 ? ", …" : ""),
      first());
}

}  // namespace ebb::dist
