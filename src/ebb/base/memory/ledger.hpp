// Every byte Ebb holds: who, which category, which scope; live and peak.
//
// A scope is a path such as decoder/layer3/attn, opened for as long as a Scope lives on the thread:
//
//   Scope scope("decoder");          // what is created from here on is entered under "decoder"
//   { Scope inner("layer3"); … }     // and here under "decoder/layer3"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebb {

enum class Category : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,
  workspace,
  data
};
inline constexpr int kCategories = 6;
const char* name(Category category);

// Names where bytes are created on this thread. `id` is stable for the life of the process, so that
// a layer can look its scope up once and enter it for the price of a store.
class Scope {
 public:
  using Id = std::uint32_t;  // 0 is the root
  explicit Scope(std::string_view part, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE());
  explicit Scope(Id id);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  static Id current();
  static Id find(std::string_view path, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE());
  static std::string path(Id id);

 private:
  Id before_;
};

// What is created on this thread while this lives is entered under `category`.
class CategoryScope {
 public:
  explicit CategoryScope(Category category);
  ~CategoryScope();
  CategoryScope(const CategoryScope&) = delete;
  CategoryScope& operator=(const CategoryScope&) = delete;
  static Category current();

 private:
  Category before_;
};

struct Usage {
  std::uint64_t live = 0;  // bytes in use now
  std::uint64_t peak = 0;  // the most since the start, or since reset_peak()
};

struct ScopeUsage {
  std::string path;    // "" is the root
  std::string opened;  // file:line where the scope was first opened
  Usage usage;         // what was created in this very scope, without the scopes inside it
};

// Buffers alive that were created by the same op, in the same scope and category.
struct Holding {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  Category category{};
  std::string scope;
  std::string site;  // the op or function that created them, and where its scope was opened
};

namespace ledger {

Usage total();
Usage of(Category category);
std::uint64_t at_peak(Category category);  // bytes of this category when the total was at its peak
std::vector<ScopeUsage> scopes();          // every scope that ever held bytes
std::vector<Holding> holdings(std::size_t most = 10);  // largest first
void reset_peak();
std::string table();  // the above by category, for people

}  // namespace ledger
}  // namespace ebb
