"""Snippets of other languages: "@|" ends a segment at a line end, "@=|" a block too."""

SNIPPETS = {
    "bash": """\
#!/bin/sh@|
f() {@|
  if a; then@|
  else@|
    d@|
  fi@|
  case x in@|
    a)@|
      b ;;@|
  esac@|
}@=|
  b@|
if [ "${x%%]*}" = "a" ]; then@|
  z=$(@|
      d@|
)@|
while read x
do@|
done@=|
""",
    "css": """\
@import 'a';@=|
/* x
 y */@|
b {@|
}@=|
@media (x)
  and (y) {@|
  p {@|
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
<p>some@|
text <b>x</b>@|
<script>@|
  2);@|
</script>@|
<img
  src=a>@|
</html>@=|
""",
    "json": """\
{@|
  "b":
    [@|
  ],@|
  "c": {@|
  }@|
}@=|
""",
    "julia": """\
function f(a,
    b)@|
    if a@|
    else@|
        y@|
    end@|
    map(x) do y@|
    end@|
end@=|
struct A@|
end@=|
    x + 1@|
x = [
]@=|
module M@|
end@=|
""",
    "ocaml": """\
@=|
(* doc
   x *)@|
let f x =@|
  match x with@|
  | A -> b@|
and h = 1@=|
type t = {@|
  b : int }@=|
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
    else@|
      y@|
    end@|
    list
      .each do |i|@|
    end@|
    begin@|
    end@|
    case a@|
    when 1@|
      b@|
    end@|
  end@|
end@=|
A@|
y = {
}@=|
""",
    "scala": """\
object A {@|
  def f(a: Int,
    b: Int): Int = {@|
    x match {@|
      case 1 =>@|
        4@|
    }@|
    if (a)@|
      b@|
    else@|
      c@|
  }@|
}@=|
    val a = 1@|
    a@=|
""",
}
