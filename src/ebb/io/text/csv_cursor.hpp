// Walks over the fields of csv records in memory: the innermost loop of all that reads csv.
#pragma once

#include <string>
#include <string_view>

#include "ebb/io/text/number.hpp"

namespace ebb::io {

class CsvCursor {
 public:
  CsvCursor(std::string_view text, char separator, char quote)
      : begin_(text.data()),
        at_(begin_),
        end_(begin_ + text.size()),
        separator_(separator),
        quote_(quote),
        space_(separator == ' ' ? '\0' : ' ') {}

  // Moves to the next record, past empty lines; false at the end.
  bool next_record() {
    while (at_ != end_ && (*at_ == '\n' || *at_ == '\r')) ++at_;
    more_ = at_ != end_;
    return more_;
  }
  bool more() const { return more_; }  // fields in this record
  std::size_t offset() const { return static_cast<std::size_t>(at_ - begin_); }

  // Takes the field where it is a plain number and nothing else.
  NumberState number(float& value) {
    const char* p = at_;
    while (p != end_ && *p == space_) ++p;
    const Number n = parse_number(p, end_);
    if (n.state == NumberState::none || !leave(n.end)) return NumberState::none;
    value = n.value;
    return n.state;
  }

  // Takes any field: without its quotes and the spaces around it. Good until the next call. `wrong`,
  // where it is set, says why it is none.
  std::string_view field(const char*& wrong) {
    const char* p = at_;
    while (p != end_ && *p == space_) ++p;
    if (p != end_ && *p == quote_ && quote_) return quoted(p, wrong);
    const char* q = p;
    for (; !ends(q); ++q)
      if (*q == quote_ && quote_) {
        wrong = "a quote inside a field that does not begin with one";
        return {};
      }
    const char* last = q;
    while (last != p && last[-1] == space_) --last;
    leave(q);
    return {p, static_cast<std::size_t>(last - p)};
  }

 private:
  bool ends(const char* p) const {
    return p == end_ || *p == separator_ || *p == '\n' ||
           (*p == '\r' && (p + 1 == end_ || p[1] == '\n'));
  }

  // Steps over the end of a field, which is at `p` but for spaces; false where it is not.
  bool leave(const char* p) {
    while (p != end_ && *p == space_) ++p;
    if (!ends(p)) return false;
    more_ = p != end_ && *p == separator_;
    if (p != end_ && *p == '\r') ++p;
    at_ = p == end_ ? p : p + 1;
    return true;
  }

  std::string_view quoted(const char* p, const char*& wrong) {
    const char* const first = ++p;
    bool doubled = false;
    for (;;) {
      while (p != end_ && *p != quote_) ++p;
      if (p == end_) {
        wrong = "a quote that is never closed";
        return {};
      }
      if (p + 1 == end_ || p[1] != quote_) break;
      doubled = true;
      p += 2;
    }
    const std::string_view inside(first, static_cast<std::size_t>(p - first));
    if (!leave(p + 1)) {
      wrong = "text behind a closing quote";
      return {};
    }
    if (!doubled) return inside;
    unescaped_.clear();
    for (std::size_t i = 0; i < inside.size(); ++i) {
      unescaped_ += inside[i];
      if (inside[i] == quote_) ++i;
    }
    return unescaped_;
  }

  const char *begin_, *at_, *end_;
  char separator_, quote_, space_;
  bool more_ = false;
  std::string unescaped_;
};

}  // namespace ebb::io
