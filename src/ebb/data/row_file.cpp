#include "ebb/data/row_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/budget.hpp"
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
    : row_bytes_(row_bytes), stride_(stride), rows_(rows) {
  // No reading ahead of what is announced: between shuffled rows lies what a batch has no use for.
  file.set_direct(false);
  const Stamp now = stamp(file);
  parts_.push_back({std::move(file), first, 0, rows, now});
}

RowFile::RowFile(std::vector<Part> parts, std::size_t row_bytes, std::size_t stride)
    : row_bytes_(row_bytes), stride_(stride) {
  for (Part& p : parts) {
    p.file.set_direct(false);
    const Stamp now = stamp(p.file);
    parts_.push_back({std::move(p.file), p.first, rows_, p.rows, now});
    rows_ += p.rows;
  }
}

std::size_t RowFile::buffer_bytes() const {
  std::int64_t most = 0;
  for (const Opened& p : parts_) most = std::max(most, p.rows);
  return buffer_for(most, row_bytes_, stride_);
}

std::size_t RowFile::buffer_for(std::int64_t rows, std::size_t row_bytes, std::size_t stride) {
  if (rows == 0) return 0;
  const std::size_t all = static_cast<std::size_t>(rows - 1) * stride + row_bytes;
  return std::max(row_bytes, std::min(kBuffer, all));
}

RowFile::Run RowFile::run(const Opened& part, std::span<const Wanted> wanted,
                          std::size_t most) const {
  const auto start_of = [&](std::uint32_t row) {
    return part.first + static_cast<std::uint64_t>(row - part.begin) * stride_;
  };
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
  for (Opened& part : parts_) {
    const auto end = std::partition_point(wanted.begin(), wanted.end(), [&](const Wanted& w) {
      return w.row < part.begin + part.rows;
    });
    const auto here = static_cast<std::size_t>(end - wanted.begin());
    if (here > 0) read(part, wanted.first(here), buffer, place);
    wanted = wanted.subspan(here);
  }
}

void RowFile::read(Opened& part, std::span<const Wanted> wanted, std::span<std::byte> buffer,
                   const Place& place) const {
  File& file = part.file;
  std::size_t announced = 0;
  std::uint64_t announced_bytes = 0, kept_bytes = 0;  // in the page cache: to be read, and read
  const auto cached = [](const Run& r) {
    return page_end(r.offset + r.bytes) - page_start(r.offset);
  };
  const auto announce = [&](std::size_t from) {
    announced = std::max(announced, from);
    while (announced < wanted.size() && announced_bytes < kAnnounced) {
      const Run r = run(part, wanted.subspan(announced), buffer.size());
      ::posix_fadvise(file.descriptor(), static_cast<off_t>(r.offset), static_cast<off_t>(r.bytes),
                      POSIX_FADV_WILLNEED);  // advice: where it is not taken, reads wait for longer
      announced += r.rows;
      announced_bytes += cached(r);
    }
  };
  // Without a budget what was read stays in the page cache, for the next epoch.
  const bool keeps = Budget::now() == 0;
  for (std::size_t at = 0; at < wanted.size();) {
    const Run r = run(part, wanted.subspan(at), buffer.size());
    const std::span<std::byte> to = buffer.first(r.bytes);
    try {
      if (!keeps || !file.read_cached_at(r.offset, to)) {
        announce(at);
        file.read_at(r.offset, to);
      }
    } catch (const FileError&) {
      if (stamp(file) != part.stamp) refuse_change(part);
      throw;
    }
    if (at < announced) announced_bytes -= cached(r);
    kept_bytes += cached(r);
    if (!keeps && kept_bytes >= kKept) {
      drop_cached_up_to(file, r.offset + r.bytes);
      kept_bytes = 0;
    }
    const std::uint32_t first_row = wanted[at].row;
    for (const Wanted& w : wanted.subspan(at, r.rows))
      place(w, buffer.data() + static_cast<std::size_t>(w.row - first_row) * stride_);
    at += r.rows;
  }
  if (!keeps) drop_cached_up_to(file, part.stamp.bytes);
  if (stamp(file) != part.stamp) refuse_change(part);
}

RowFile::Stamp RowFile::stamp(const File& file) {
  struct stat info {};
  if (::fstat(file.descriptor(), &info) < 0) return {};
  return {static_cast<std::uint64_t>(info.st_size), info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

void RowFile::refuse_change() const {
  for (const Opened& part : parts_)
    if (stamp(part.file) != part.stamp) refuse_change(part);
  refuse_change(parts_.front());
}

void RowFile::refuse_change(const Opened& part) {
  throw FileError(fmt::format(
      "cannot read \"{}\": it has changed since it was opened ({} bytes then, {} now); leave the "
      "files of a data set as they are while it is in use, and open it anew",
      part.file.path(), part.stamp.bytes, stamp(part.file).bytes));
}

}  // namespace ebb::data
