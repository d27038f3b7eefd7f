"""Snippets of other languages: "@|" ends a segment at a line end, "@=|" a block too."""

SNIPPETS = {
    "bash": """\
#!/bin/sh@|
f() {@|
  if a; then@|
    b \\
      c@|
  else@|
    d@|
  fi@|
  for i in a b; do@|
    e |
    f@|
  done@|
  case x in@|
    a)@|
      b ;;@|
  esac@|
}@=|
cat <<E
 a
 b
E@|
x='a
b'@|
a &&
  b@|
if [ "${x%%]*}" = "a" ]; then@|
  z=$(@|
    c \\
      d@|
  )@|
fi@|
y=(
  1
  2
)@|
while read x
do@|
  y@|
done@=|
""",
    "css": """\
@import 'a';@=|
/* x
 y */@|
a,
b {@|
  color: red;@|
  grid:
    a
    b;@|
}@=|
@media (x)
  and (y) {@|
  p {@|
    a: b;@|
  }@|
}@=|
""",
    "haskell": """\
module A where@=|
import B@|
@=|
-- doc@|
f :: Int
  -> Int@=|
f x = do@|
  a <- b c
         d@|
  let y = 1@|
      z = 2@|
  case x of@|
    1 -> 2@|
    _ -> 3@|
  where@|
    y = 1@|
    z = 2@=|
g 1 = 2@=|
g x
  | x > 1 = 2
  | otherwise = 3@=|
data A = B
  | C
  deriving (Show)@=|
instance X A where@|
  a = b@|
  c = d@=|
""",
    "html": """\
<!doctype html>@=|
<html>@|
<body
  a=b
  c=d>@|
<p>some@|
text <b>x</b>@|
more@|
</p>@|
<script>@|
var a = f(1,@|
  2);@|
</script>@|
<!-- a
 b -->@|
<img
  src=a>@|
</body>@|
</html>@=|
""",
    "json": """\
{@|
  "a": 1,@|
  "b":
    [@|
    1,@|
    2@|
  ],@|
  "c": {@|
    "d": 1@|
  }@|
}@=|
""",
    "julia": """\
function f(a,
    b)@|
    if a@|
        x = 1 +
            2@|
    else@|
        y@|
    end@|
    map(x) do y@|
        z@|
    end@|
end@=|
struct A@|
    a::Int@|
    b::Int@|
end@=|
\"\"\"
doc
\"\"\"@|
g(x) =
    x + 1@|
x = [
  1,
  2,
]@=|
module M@|
h() = 1@|
end@=|
""",
    "ocaml": """\
open A@|
@=|
(* doc
   x *)@|
let f x =@|
  let y = g 1
      2 in@|
  print y;@|
  let z = 1 in@|
  print
    z;@|
  match x with@|
  | A -> b@|
  | B ->
    c@=|
let rec g a
  b = a@|
and h = 1@=|
type t = {@|
  a : int;@|
  b : int }@=|
module M = struct@|
  let a = 1@|
end@=|
let () =@|
  if a then
    b ()@|
  else begin@|
    c ();@|
    d ()@|
  end@=|
""",
    "ocaml_interface": """\
val f :
  int ->
  int@=|
type t =@|
  | A@|
  | B@=|
""",
    "ruby": """\
class A < B@|
  def f(a,
        b)@|
    if a@|
      x = g 1,
        2@|
    else@|
      y@|
    end@|
    list
      .map { |x| x }
      .each do |i|@|
      p i@|
    end@|
    begin@|
      a@|
    rescue E@|
      b@|
    end@|
    case a@|
    when 1@|
      b@|
    end@|
  end@|
end@=|
x = <<~A
  foo
  bar
A@|
y = {
  a: 1,
}@=|
""",
    "scala": """\
object A {@|
  def f(a: Int,
    b: Int): Int = {@|
    val x = a
      .b@|
    x match {@|
      case 1 =>@|
        f(2,
          3)@|
        4@|
      case _ => 5@|
    }@|
    if (a)@|
      b@|
    else@|
      c@|
  }@|
}@=|
class B:@|
  def g =@|
    val a = 1@|
    a@=|
""",
}
