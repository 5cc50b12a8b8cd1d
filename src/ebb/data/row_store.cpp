#include "ebb/data/row_store.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/rng.hpp"
#include "ebb/base/round.hpp"
#include "ebb/data/row_file.hpp"
#include "ebb/kernels/checksum.hpp"

namespace ebb::data {
namespace {

// A file is: the header, `text_bytes` of text, nothing up to the next page, rows, lists. The text is the
// key's two lines and the maker's own.
constexpr char kMagic[8] = {'E', 'b', 'b', 'R', 'o', 'w', 's', '2'};
constexpr std::uint64_t kPage = 4096, kMostText = 64 << 20, kMostLists = 1000;
constexpr std::uint64_t kUnflushed = 4 << 20;  // written, and not yet on its way to the disk

struct Header {
  char magic[8];
  std::uint64_t text_bytes, rows, row_bytes, lists;
  std::uint64_t checksum;  // of all before the rows, this being 0
};

std::uint64_t start_of_rows(std::uint64_t lists, std::uint64_t text) {
  return round_up(sizeof(Header) + lists * sizeof(std::uint64_t) + text, kPage);
}

std::string head_of(const StoreKey& key) { return key.what + '\n' + key.version + '\n'; }

std::string header_of(const StoreKey& key, const StoreShape& shape, const std::string& text) {
  const std::string all = head_of(key) + text;
  Header header{
      {}, all.size(), static_cast<std::uint64_t>(shape.rows), shape.row_bytes, shape.lists.size(),
      0};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(shape.lists.data()),
               shape.lists.size() * sizeof(std::uint64_t));
  bytes += all;
  bytes.resize(start_of_rows(shape.lists.size(), all.size()));
  header.checksum = kernels::checksum(bytes.data(), bytes.size(), 0);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

std::string path_of(const StoreOptions& options, const StoreKey& key) {
  const std::uint64_t name = kernels::checksum(key.what.data(), key.what.size(), 1);
  return fmt::format("{}/{:016x}.rows", options.cache.empty() ? cache_folder() : options.cache,
                     name);
}

// A folder that is made here is its owner's alone: what it will hold may have been, too.
void make_private(const std::string& folder) {
  if (file_exists(folder)) return;
  make_directories(folder);
  ::chmod(folder.c_str(), 0700);
}

const char* set_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value ? value : nullptr;
}

}  // namespace

std::string cache_folder() {
  if (const char* folder = set_variable("EBB_CACHE")) return folder;
  if (const char* folder = set_variable("XDG_CACHE_HOME")) return std::string(folder) + "/ebb";
  if (const char* folder = set_variable("HOME")) return std::string(folder) + "/.cache/ebb";
  return fmt::format("{}/ebb-{}", temporary_folder(), ::getuid());
}

std::string version_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) < 0) (void)File::open(path);  // says why not
  return fmt::format("{} bytes, {}.{:09}", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

bool hold(const StoreOptions& options, std::initializer_list<std::uint64_t> tensors) {
  if (!options.held) return options.in_memory;
  return options.held->put(options.in_memory, {tensors.begin(), tensors.size()});
}

void touch_some(Tensor& rows) {
  const std::size_t some = std::min<std::size_t>(rows.spec().bytes(), 1 << 20);
  if (some) std::memset(rows.bytes(), 0, some);
}

std::vector<std::uint64_t> StoreShape::tensors() const {
  std::vector<std::uint64_t> all = {static_cast<std::uint64_t>(rows) * row_bytes};
  all.insert(all.end(), lists.begin(), lists.end());
  return all;
}

// Where rows go into memory however many they are, nobody looks for a file; one of few is passed over.
std::optional<RowStore> RowStore::find(const StoreOptions& options, const StoreKey& key) {
  RowsHeld* const held = options.held;
  if (options.was_kept) *options.was_kept = false;
  if (options.in_memory && (!held || held->most == RowsHeld::kAll)) return {};
  const std::string path = path_of(options, key);
  if (!file_exists(path)) return {};
  std::optional<RowStore> found = open(path, key);
  if (found && options.in_memory && held->has_room(found->shape_.tensors())) found.reset();
  if (found && held) held->put(false, found->shape_.tensors());
  if (options.was_kept) *options.was_kept = found.has_value();
  return found;
}

// One that is not whole, or of something else, is none: it is made anew.
std::optional<RowStore> RowStore::open(const std::string& path, const StoreKey& key) {
  File file = File::open(path);
  const std::uint64_t size = file.size();
  Header header{};
  if (size < sizeof header) return {};
  file.read_at(0, std::as_writable_bytes(std::span(&header, 1)));
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return {};
  if (header.text_bytes > kMostText || header.lists > kMostLists) return {};
  const std::uint64_t first = start_of_rows(header.lists, header.text_bytes);
  if (first > size) return {};
  const memory::Buffer all(first, "row store", Category::data);
  file.read_at(0, {all.data(), all.size()});
  const std::uint64_t sum = std::exchange(header.checksum, 0);
  std::memcpy(all.data(), &header, sizeof header);
  if (kernels::checksum(all.data(), all.size(), 0) != sum) return {};

  RowStore out;
  out.shape_ = {static_cast<std::int64_t>(header.rows), header.row_bytes, {}};
  out.shape_.lists.resize(header.lists);
  const std::byte* const lists = all.data() + sizeof header;
  if (header.lists)
    std::memcpy(out.shape_.lists.data(), lists, header.lists * sizeof(std::uint64_t));
  std::uint64_t end = 0;
  bool fits = !__builtin_mul_overflow(header.rows, header.row_bytes, &end);
  fits = fits && !__builtin_add_overflow(end, first, &end);
  for (const std::uint64_t bytes : out.shape_.lists)
    fits = fits && !__builtin_add_overflow(end, bytes, &end);
  if (!fits || end != size || header.rows >> 62 != 0) return {};
  const char* const text =
      reinterpret_cast<const char*>(lists + header.lists * sizeof(std::uint64_t));
  out.text_.assign(text, header.text_bytes);
  const std::string head = head_of(key);
  if (!out.text_.starts_with(head)) return {};
  out.text_.erase(0, head.size());
  out.path_ = path;
  out.first_ = first;
  out.file_ = std::make_shared<RowFile>(std::move(file), first, header.row_bytes, header.row_bytes,
                                        out.shape_.rows);
  return out;
}

Source RowStore::column(std::size_t offset, DType dtype, const Shape& row) const {
  std::vector<std::int64_t> dims{shape_.rows};
  dims.insert(dims.end(), row.begin(), row.end());
  const Spec spec{Shape(dims), dtype};
  const Source at = memory_ ? Source::part(memory_, spec, offset) : Source(file_, spec, offset);
  return at.movable(RowFile::buffer_for(shape_.rows, shape_.row_bytes, shape_.row_bytes), false);
}

Source RowStore::lists(std::size_t offset, std::size_t list, DType dtype,
                       std::int64_t longest) const {
  const Source places = column(offset, DType::u8, {static_cast<std::int64_t>(ListPlace::kBytes)});
  std::shared_ptr<const Lists> content;
  if (memory_) {
    content = std::make_shared<Lists>(list_memory_[list], dtype);
  } else {
    std::uint64_t first = first_ + static_cast<std::uint64_t>(shape_.rows) * shape_.row_bytes;
    for (std::size_t i = 0; i < list; ++i) first += shape_.lists[i];
    content = std::make_shared<Lists>(File::open(path_), first, shape_.lists[list], dtype);
  }
  return Source::of_lists(places, content, longest);
}

void RowStore::take_memory() {
  const auto u8 = [](std::int64_t rows, std::uint64_t bytes) {
    const Spec spec{{rows, static_cast<std::int64_t>(bytes)}, DType::u8};
    return Tensor::uninitialized(spec, "rows", Category::data);
  };
  memory_ = u8(shape_.rows, shape_.row_bytes);
  for (const std::uint64_t bytes : shape_.lists) list_memory_.push_back(u8(1, bytes));
}

void RowStore::take_shape(bool in_memory) {
  if (in_memory) {
    take_memory();
    touch_some(memory_);
    return;
  }
  std::uint64_t end = static_cast<std::uint64_t>(shape_.rows) * shape_.row_bytes;
  for (const std::uint64_t bytes : shape_.lists) end += bytes;
  File file = File::temporary(temporary_folder());
  file.truncate(end);
  path_ = fmt::format("/proc/self/fd/{}", file.descriptor());  // it has no other name
  file_ = std::make_shared<RowFile>(std::move(file), 0, shape_.row_bytes, shape_.row_bytes,
                                    shape_.rows);
}

RowStoreWriter::RowStoreWriter(const StoreOptions& options, StoreKey key, std::string text,
                               StoreShape shape)
    : key_(std::move(key)), shape_only_(options.shape_only), list_written_(shape.lists.size(), 0) {
  store_.shape_ = std::move(shape);
  const StoreShape& s = store_.shape_;
  const bool in_memory =
      options.held ? options.held->put(options.in_memory, s.tensors()) : options.in_memory;
  if (shape_only_) {
    store_.take_shape(in_memory);
    return;
  }
  if (in_memory) {
    store_.text_ = std::move(text);
    store_.take_memory();
    return;
  }
  store_.path_ = path_of(options, key_);
  make_private(store_.path_.substr(0, store_.path_.rfind('/')));
  const std::string header = header_of(key_, s, text);
  std::uint64_t end = store_.first_ = header.size();
  end += static_cast<std::uint64_t>(s.rows) * s.row_bytes;
  for (const std::uint64_t bytes : s.lists) {
    list_first_.push_back(end);
    end += bytes;
  }
  file_ = std::make_unique<AtomicFile>(store_.path_);
  file_->file().reserve(end);
  file_->file().write_at(0, std::as_bytes(std::span(header)));
}
RowStoreWriter::~RowStoreWriter() = default;

// Under a limit nothing piles up in the page cache, which is memory of the process's group.
void RowStoreWriter::put(std::uint64_t offset, std::span<const std::byte> bytes) {
  file_->file().write_at(offset, bytes);
  unflushed_ += bytes.size();
  if (memory::limit() == 0 || unflushed_ < kUnflushed) return;
  file_->file().write_back(
      0, list_first_.empty() ? offset + bytes.size() : store_.first_ + rows_written_);
  for (std::size_t i = 0; i < list_first_.size(); ++i)
    file_->file().write_back(list_first_[i], list_written_[i]);
  unflushed_ = 0;
}

void RowStoreWriter::add_rows(std::span<const std::byte> rows) {
  if (shape_only_) throw Enough();
  const StoreShape& s = store_.shape_;
  if (rows.size() > static_cast<std::uint64_t>(s.rows) * s.row_bytes - rows_written_)
    throw Error(
        fmt::format("{}: it has more rows than the {} of before; it has changed while it was "
                    "read, read it anew",
                    key_.what, s.rows));
  if (file_)
    put(store_.first_ + rows_written_, rows);
  else if (!rows.empty())
    std::memcpy(store_.memory_.bytes() + rows_written_, rows.data(), rows.size());
  rows_written_ += rows.size();
}

std::uint64_t RowStoreWriter::add_list(std::size_t list, std::span<const std::byte> bytes) {
  const std::uint64_t at = list_written_[list];
  if (shape_only_) return at;
  if (bytes.size() > store_.shape_.lists[list] - at)
    throw Error(
        fmt::format("{}: it has more than it had before; it has changed while it was read, "
                    "read it anew",
                    key_.what));
  if (file_)
    put(list_first_[list] + at, bytes);
  else if (!bytes.empty())
    std::memcpy(store_.list_memory_[list].bytes() + at, bytes.data(), bytes.size());
  list_written_[list] += bytes.size();
  return at;
}

RowStore RowStoreWriter::finish() {
  if (shape_only_) return std::move(store_);
  const StoreShape& s = store_.shape_;
  if (rows_written_ != static_cast<std::uint64_t>(s.rows) * s.row_bytes || list_written_ != s.lists)
    throw Error(
        fmt::format("{}: it has fewer rows than the {} of before; it has changed while it was "
                    "read, read it anew",
                    key_.what, s.rows));
  if (!file_) return std::move(store_);
  file_->commit();
  std::optional<RowStore> made = RowStore::open(store_.path_, key_);
  if (!made)
    throw FileError(
        fmt::format("cannot read \"{}\" back, which was just written; is another program "
                    "at work in that folder?",
                    store_.path_));
  return *std::move(made);
}

}  // namespace ebb::data
