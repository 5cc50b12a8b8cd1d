#include "ebb/data/row_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/pieces.hpp"

namespace ebb::data {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBuffer = 256 << 10;     // the most that one read covers, if rows are shorter
constexpr std::size_t kGap = kPage;            // so much between two rows is read along with them
constexpr std::uint64_t kAnnounced = 4 << 20;  // in the page cache, to be read, or one read
constexpr std::uint64_t kKept = 4 << 20;       // in the page cache, when it was read

std::uint64_t page_start(std::uint64_t offset) { return offset / kPage * kPage; }
std::uint64_t page_end(std::uint64_t offset) { return (offset + kPage - 1) / kPage * kPage; }

}  // namespace

RowFile::RowFile(File file, std::uint64_t first, std::size_t row_bytes, std::size_t stride,
                 std::int64_t rows)
    : file_(std::move(file)),
      first_(first),
      row_bytes_(row_bytes),
      stride_(stride),
      rows_(rows),
      opened_(stamp()) {
  // No reading ahead of what is announced: between shuffled rows lies what a batch has no use for.
  file_.set_direct(false);
}

std::size_t RowFile::buffer_bytes() const {
  if (rows_ == 0) return 0;
  const std::size_t all = static_cast<std::size_t>(rows_ - 1) * stride_ + row_bytes_;
  return std::max(row_bytes_, std::min(kBuffer, all));
}

RowFile::Run RowFile::run(std::span<const Wanted> wanted, std::size_t most) const {
  const auto start_of = [&](std::uint32_t row) { return first_ + std::uint64_t{row} * stride_; };
  const std::uint64_t start = start_of(wanted[0].row);
  std::uint64_t end = start + row_bytes_;
  std::size_t rows = 1;
  for (; rows < wanted.size(); ++rows) {
    const std::uint64_t next = start_of(wanted[rows].row);
    if (next > end + kGap || next + row_bytes_ > start + most) break;
    end = next + row_bytes_;
  }
  return {rows, start, static_cast<std::size_t>(end - start)};
}

void RowFile::read(std::span<const Wanted> wanted, std::span<std::byte> buffer,
                   const Place& place) const {
  std::size_t announced = 0;
  std::uint64_t announced_bytes = 0, kept_bytes = 0;  // in the page cache: to be read, and read
  const auto cached = [](const Run& r) {
    return page_end(r.offset + r.bytes) - page_start(r.offset);
  };
  for (std::size_t at = 0; at < wanted.size();) {
    while (announced < wanted.size() && announced_bytes < kAnnounced) {
      const Run r = run(wanted.subspan(announced), buffer.size());
      ::posix_fadvise(file_.descriptor(), static_cast<off_t>(r.offset), static_cast<off_t>(r.bytes),
                      POSIX_FADV_WILLNEED);  // advice: where it is not taken, reads wait for longer
      announced += r.rows;
      announced_bytes += cached(r);
    }
    const Run r = run(wanted.subspan(at), buffer.size());
    try {
      file_.read_at(r.offset, buffer.first(r.bytes));
    } catch (const FileError&) {
      if (stamp() != opened_) refuse_change();
      throw;
    }
    announced_bytes -= cached(r);
    kept_bytes += cached(r);
    if (kept_bytes >= kKept) {
      drop_cached_up_to(file_, r.offset + r.bytes);
      kept_bytes = 0;
    }
    const std::uint32_t first_row = wanted[at].row;
    for (const Wanted& w : wanted.subspan(at, r.rows))
      place(w, buffer.data() + static_cast<std::size_t>(w.row - first_row) * stride_);
    at += r.rows;
  }
  drop_cached_up_to(file_, opened_.bytes);
  if (stamp() != opened_) refuse_change();
}

RowFile::Stamp RowFile::stamp() const {
  struct stat info {};
  if (::fstat(file_.descriptor(), &info) < 0) return {};
  return {static_cast<std::uint64_t>(info.st_size), info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

void RowFile::refuse_change() const {
  const Stamp now = stamp();
  throw FileError(fmt::format(
      "cannot read \"{}\": it has changed since it was opened ({} bytes then, {} now); leave the "
      "files of a data set as they are while it is in use, and open it anew",
      file_.path(), opened_.bytes, now.bytes));
}

}  // namespace ebb::data
