// Rows of one length, made once of a file whose rows have none (csv, jsonl, pictures, packed files): in
// memory, or in a file of a cache folder, which the next program finds there (decision 0028).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/files/file.hpp"
#include "ebb/data/rows_held.hpp"
#include "ebb/data/source.hpp"

namespace ebb::data {

struct StoreOptions {
  bool in_memory = true;   // false: rows are kept in a file of `cache`, and a batch reads its own
  std::string cache = {};  // a folder; none: cache_folder()
  // To plan with: as much memory is counted, or a file is as long, as rows would take; only the first of them are
  // made, to see what that takes, and none is kept.
  bool shape_only = false;
  bool* was_kept =
      nullptr;  // set to whether the cache had the rows, so that their source was not read
  // Where it is said, rows are held in memory as far as that has room for them; else as if in_memory were false.
  RowsHeld* held = nullptr;
};
// Whether rows that would be tensors of these sizes are held in memory. It is settled then.
bool hold(const StoreOptions& options, std::initializer_list<std::uint64_t> tensors);

// EBB_CACHE, else ebb in XDG_CACHE_HOME, in .cache of HOME, or in the temporary folder.
std::string cache_folder();

// Of rows whose shape alone is wanted: those that a map is tried with. The rest is never touched, and takes no memory
// but for the account.
void touch_some(Tensor& rows);

// What a store was made of, and how: equal for the same rows, and for those alone.
struct StoreKey {
  std::string what;     // names the file in the folder: source and options
  std::string version;  // of the source: one that has changed is read anew
};
std::string version_of(const std::string& path);  // length and time of a file

struct StoreShape {
  std::int64_t rows = 0;
  std::size_t row_bytes = 0;
  std::vector<std::uint64_t> lists = {};       // bytes of each column of lists
  std::vector<std::uint64_t> tensors() const;  // bytes of each tensor that it is in memory
};

class RowStore {
 public:
  // The one of this key, if the folder has it.
  static std::optional<RowStore> find(const StoreOptions& options, const StoreKey& key);

  const std::string& text() const { return text_; }  // what its maker wanted to know again
  std::int64_t rows() const { return shape_.rows; }
  // A column: bytes from `offset` on of each row, of this type and shape.
  Source column(std::size_t offset, DType dtype, const Shape& row = {}) const;
  // Its ListPlace is at `offset` of each row; it is number `list` of the lists.
  Source lists(std::size_t offset, std::size_t list, DType dtype, std::int64_t longest) const;

 private:
  friend class RowStoreWriter;
  RowStore() = default;
  static std::optional<RowStore> open(const std::string& path, const StoreKey& key);
  void take_memory();
  void take_shape(bool in_memory);

  std::string text_, path_;
  StoreShape shape_;
  std::uint64_t first_ = 0;  // byte of the file at which rows begin
  Tensor memory_;            // u8(rows, row_bytes), or none
  std::vector<Tensor> list_memory_;
  std::shared_ptr<const RowFile> file_;
};

// Takes exactly as many rows and bytes of lists as was said.
class RowStoreWriter {
 public:
  RowStoreWriter(const StoreOptions& options, StoreKey key, std::string text, StoreShape shape);
  ~RowStoreWriter();
  void add_rows(std::span<const std::byte> rows);
  // Lists go behind those that are there, which is where the first of `bytes` will lie.
  std::uint64_t add_list(std::size_t list, std::span<const std::byte> bytes);
  RowStore finish();

  // What add_rows throws where the shape is all that is wanted: fill_all() ends with it.
  struct Enough {};
  template <class Fill>
  RowStore fill_all(const Fill& fill) {
    try {
      fill();
    } catch (const Enough&) {
    }
    return finish();
  }

 private:
  void put(std::uint64_t offset, std::span<const std::byte> bytes);

  StoreKey key_;
  RowStore store_;
  bool shape_only_ = false;
  std::unique_ptr<AtomicFile> file_;  // none: in memory
  std::uint64_t rows_written_ = 0, unflushed_ = 0;
  std::vector<std::uint64_t> list_written_, list_first_;
};

}  // namespace ebb::data
