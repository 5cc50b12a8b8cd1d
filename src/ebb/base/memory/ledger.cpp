#include "ebb/base/memory/ledger.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "ebb/base/memory/memory_state.hpp"

namespace ebb {

namespace memory {

std::string readable(std::uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::vector<Holding> holdings_locked(const State& s, std::size_t most) {
  std::map<std::tuple<Category, Scope::Id, std::string_view>,
           std::pair<std::uint64_t, std::uint64_t>>
      groups;
  for (const Block* b = s.live.next; b != &s.live; b = b->next) {
    auto& [bytes, count] = groups[{b->category, b->scope, b->site}];
    bytes += b->bytes;
    count += 1;
  }
  std::vector<Holding> all;
  all.reserve(groups.size());
  for (const auto& [key, sums] : groups) {
    const auto& [category, scope, site] = key;
    const ScopeEntry& entry = s.scopes[scope];
    std::string where(site);
    if (!entry.opened.empty()) where += fmt::format(" (scope opened at {})", entry.opened);
    all.push_back({sums.first, sums.second, category, entry.path, std::move(where)});
  }
  std::sort(all.begin(), all.end(), [](const Holding& a, const Holding& b) {
    return std::tie(b.bytes, a.scope, a.site) < std::tie(a.bytes, b.scope, b.site);
  });
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace memory

using memory::ScopeEntry;
using memory::State;
using memory::state;
using memory::this_thread;

namespace {

Scope::Id child(State& s, Scope::Id parent, std::string_view part, std::string_view file,
                int line) {
  const auto found = s.children.find(std::pair<Scope::Id, std::string>(parent, part));
  if (found != s.children.end()) return found->second;
  std::string path = s.scopes[parent].path;
  if (!path.empty() && !part.empty()) path += '/';
  path += part;
  file = file.substr(file.find_last_of('/') + 1);
  s.scopes.push_back({std::move(path), fmt::format("{}:{}", file, line), {}});
  const auto id = static_cast<Scope::Id>(s.scopes.size() - 1);
  s.children.emplace(std::pair(parent, std::string(part)), id);
  return id;
}

}  // namespace

const char* name(Category category) {
  static constexpr const char* names[] = {"parameters",  "gradients", "optimizer",
                                          "activations", "workspace", "data"};
  return names[static_cast<int>(category)];
}

Scope::Scope(std::string_view part, const char* file, int line) : before_(this_thread.scope) {
  State& s = state();
  std::lock_guard lock(s.lock);
  this_thread.scope = child(s, before_, part, file, line);
}
Scope::Scope(Id id) : before_(this_thread.scope) { this_thread.scope = id; }
Scope::~Scope() { this_thread.scope = before_; }
Scope::Id Scope::current() { return this_thread.scope; }

Scope::Id Scope::find(std::string_view path, const char* file, int line) {
  State& s = state();
  std::lock_guard lock(s.lock);
  Id id = 0;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    id = child(s, id, path.substr(0, slash), file, line);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return id;
}

std::string Scope::path(Id id) {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.scopes.at(id).path;
}

CategoryScope::CategoryScope(Category category) : before_(this_thread.category) {
  this_thread.category = category;
}
CategoryScope::~CategoryScope() { this_thread.category = before_; }
Category CategoryScope::current() { return this_thread.category; }

namespace ledger {

Usage total() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.total;
}

Usage of(Category category) {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.categories[static_cast<int>(category)];
}

std::uint64_t at_peak(Category category) {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.at_peak[static_cast<int>(category)];
}

std::vector<ScopeUsage> scopes() {
  State& s = state();
  std::lock_guard lock(s.lock);
  std::vector<ScopeUsage> used;
  for (const ScopeEntry& e : s.scopes)
    if (e.usage.peak > 0) used.push_back({e.path, e.opened, e.usage});
  return used;
}

std::vector<Holding> holdings(std::size_t most) {
  State& s = state();
  std::lock_guard lock(s.lock);
  return memory::holdings_locked(s, most);
}

void reset_peak() {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.total.peak = s.total.live;
  for (int c = 0; c < kCategories; ++c) {
    s.categories[c].peak = s.categories[c].live;
    s.at_peak[c] = s.categories[c].live;
  }
  for (ScopeEntry& e : s.scopes) e.usage.peak = e.usage.live;
}

std::string table() {
  std::string text =
      fmt::format("{:<12} {:>12} {:>12} {:>12}\n", "memory", "live", "peak", "at peak");
  for (int c = 0; c < kCategories; ++c) {
    const auto category = static_cast<Category>(c);
    const Usage usage = of(category);
    text +=
        fmt::format("{:<12} {:>12} {:>12} {:>12}\n", name(category), memory::readable(usage.live),
                    memory::readable(usage.peak), memory::readable(at_peak(category)));
  }
  const Usage all = total();
  text += fmt::format("{:<12} {:>12} {:>12} {:>12}\n", "total", memory::readable(all.live),
                      memory::readable(all.peak), memory::readable(all.peak));
  return text;
}

}  // namespace ledger
}  // namespace ebb
