#include "ebb/tensor/rewrite.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "ebb/base/error.hpp"

namespace ebb {
namespace {

// What small variables (biases, counters) may take in memory, rather than go to the disk and back.
constexpr std::uint64_t kSmall = 1 << 20;
constexpr std::uint64_t kPage = 4096;

}  // namespace

Rewrite::Rewrite(std::vector<Variable> variables)
    : variables_(std::move(variables)), entries_(variables_.size()) {
  if (variable_view()) throw Error("variables are written anew outside of compiled functions");
  std::uint64_t small = 0;
  std::vector<std::size_t> large;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const Variable::State& s = variables_[i].state();
    if (s.backing) {
      backings_.insert(s.backing.get());
      continue;
    }
    const bool own = s.there && s.value.unique();
    if (own && small + s.spec.bytes() > kSmall) {
      large.push_back(i);
      continue;
    }
    if (own) small += s.spec.bytes();
    const Scope scope(s.scope);
    try {
      entries_[i].fresh = Tensor::uninitialized(s.spec, "variable", s.category);
    } catch (const OutOfMemory&) {
      if (!own) throw;
      large.push_back(i);  // no room for a second one: it goes to the file as large ones do
    }
  }
  if (!large.empty()) set_aside(large);
}

void Rewrite::set_aside(std::span<const std::size_t> large) {
  std::uint64_t end = 0;
  for (const std::size_t i : large) {
    entries_[i].aside = end;
    end += (variables_[i].spec().bytes() + kPage - 1) / kPage * kPage;
  }
  aside_ = File::temporary(temporary_folder());
  aside_.reserve(end);
  for (const std::size_t i : large) {
    const std::uint64_t bytes = variables_[i].spec().bytes();
    for (std::uint64_t at = 0; at < bytes; at += kChunk) {
      const std::uint64_t n = std::min<std::uint64_t>(kChunk, bytes - at);
      aside_.write_at(entries_[i].aside + at, {variables_[i].bytes() + at, n});
      aside_.write_back(entries_[i].aside + at, n);
    }
  }
  for (const std::size_t i : large) entries_[i].in_place = true;
}

void Rewrite::write(std::size_t variable, std::span<const std::byte> from, std::uint64_t offset) {
  Variable& v = variables_.at(variable);
  Entry& e = entries_[variable];
  v.check_range("write", from.size(), offset);
  if (from.empty()) return;
  if (e.fresh || e.in_place)
    std::memcpy((e.fresh ? e.fresh.bytes() : v.bytes()) + offset, from.data(), from.size());
  else
    v.state().backing->write(v, from, offset);
}

// Backings have been told of every failed write by now, and all that is left to them is to switch.
void Rewrite::commit() {
  for (Variable::Backing* backing : backings_) backing->commit();
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (entries_[i].fresh)
      variables_[i].set(std::move(entries_[i].fresh));
    else if (!entries_[i].in_place)
      variables_[i].forget();
  }
  done_ = true;
}

Rewrite::~Rewrite() {
  if (!done_) set_back();
}

void Rewrite::set_back() noexcept {
  for (Variable::Backing* backing : backings_) backing->rollback();
  std::size_t lost = 0;
  const Variable* named = nullptr;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (!entries_[i].in_place) continue;
    try {
      aside_.read_at(entries_[i].aside, {variables_[i].bytes(), variables_[i].spec().bytes()});
    } catch (const std::exception&) {
      ++lost;
      named = &variables_[i];
    }
  }
  if (lost)
    fmt::print(stderr,
               "ebb: {} variables, among them {}, could not be set back after an error: the file "
               "they were set aside in cannot be read; load a checkpoint before you go on\n",
               lost, named->name());
}

}  // namespace ebb
