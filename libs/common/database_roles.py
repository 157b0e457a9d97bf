"""One login role for each schema: it owns what is in there, and can neither read nor enter another's.

The statements are a script that may be run again and again, by the database's owner: they make what is
missing and hand over what another role owns, found in the catalogue. Of a password they hold what PostgreSQL
itself keeps of it, so that neither its log nor whoever reads the script learns one.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence

import asyncpg

from libs.common.lane import driver_url
from libs.common.settings import role_of

_ITERATIONS = 4096  # PostgreSQL's own default; the passwords made here have 256 random bits
_SALT_BYTES = 16

_BEGIN = """\
SET LOCAL lock_timeout = '5s';
SELECT pg_advisory_xact_lock(hashtext('frontrow roles'));
DO $$ BEGIN
  EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
END $$;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
"""

_ROLE = """
-- {schema}
DO $$
DECLARE
  thing record;
  mighty boolean := (SELECT rolsuper FROM pg_roles WHERE rolname = current_user);
BEGIN
  IF to_regrole('{role}') IS NULL THEN
    BEGIN
      CREATE ROLE {role} LOGIN;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; -- made for another database meanwhile
    END;
  ELSIF NOT (SELECT rolcanlogin FROM pg_roles WHERE rolname = '{role}') THEN
    ALTER ROLE {role} LOGIN;
  END IF;
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO {role}', current_database());
  IF NOT mighty AND NOT pg_has_role(current_user, '{role}', 'USAGE') THEN
    EXECUTE format('GRANT {role} TO %I', current_user); -- only its members may give it anything
  END IF;
  IF to_regnamespace('{schema}') IS NULL THEN
    CREATE SCHEMA {schema} AUTHORIZATION {role};
  ELSIF (SELECT nspowner FROM pg_namespace WHERE nspname = '{schema}') <> '{role}'::regrole THEN
    ALTER SCHEMA {schema} OWNER TO {role};
  END IF;
  REVOKE ALL ON SCHEMA {schema} FROM PUBLIC;
  FOR thing IN
    SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
             WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END AS kind,
           c.oid::regclass::text AS name
      FROM pg_class c
      WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind IN ('r', 'p', 'S', 'v', 'm', 'f', 'c')
        AND c.relowner <> '{role}'::regrole
        AND NOT EXISTS ( -- a column's own sequence goes with its table, an extension's part with that
          SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
            AND (d.deptype = 'e' OR c.relkind = 'S' AND d.deptype IN ('a', 'i')))
    UNION ALL
    SELECT 'ROUTINE', p.oid::regprocedure::text
      FROM pg_proc p
      WHERE p.pronamespace = '{schema}'::regnamespace AND p.proowner <> '{role}'::regrole
        AND NOT EXISTS (SELECT FROM pg_depend d
          WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
    UNION ALL
    SELECT 'TYPE', t.oid::regtype::text
      FROM pg_type t
      WHERE t.typnamespace = '{schema}'::regnamespace AND t.typowner <> '{role}'::regrole
        AND t.typtype IN ('e', 'd', 'r')
        AND NOT EXISTS (SELECT FROM pg_depend d
          WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e')
  LOOP
    EXECUTE format('ALTER %s %s OWNER TO {role}', thing.kind, thing.name);
  END LOOP;
END $$;
"""

_PROOF = "ALTER ROLE {role} PASSWORD '{verifier}';\n"

_CHECK = """
-- What was there before must not let a role do more.
DO $$
DECLARE
  found text;
BEGIN
  SELECT string_agg(DISTINCT r.rolname || ' ' || wrong.what, ', ') INTO found
    FROM pg_roles r, LATERAL (
      SELECT 'may do everything in this cluster' AS what
        WHERE r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls
      UNION ALL
      SELECT 'is a member of ' || m.roleid::regrole FROM pg_auth_members m WHERE m.member = r.oid
      UNION ALL
      SELECT 'may create tables in public' WHERE has_schema_privilege(r.oid, 'public', 'CREATE')
      UNION ALL
      SELECT 'may enter the schema ' || n.nspname
        FROM pg_namespace n
        WHERE n.nspname IN ({schemas}) AND r.rolname <> 'frontrow_' || n.nspname
          AND has_schema_privilege(r.oid, n.oid, 'USAGE, CREATE')
    ) AS wrong
    WHERE r.rolname IN ({roles});
  IF found IS NOT NULL THEN
    RAISE EXCEPTION 'these roles can do too much: %', found
      USING HINT = 'Take it from them (REVOKE, ALTER ROLE), or drop the roles, then run this again.';
  END IF;
END $$;
"""


def script(schemas: Sequence[str], passwords: Mapping[str, str] | None = None) -> str:
    """Return the statements that give each schema its role; ``passwords`` are by role, none: unchanged."""
    parts = ["BEGIN;\n", _BEGIN]
    for schema in schemas:
        role = role_of(schema)
        parts.append(_ROLE.format(schema=schema, role=role))
        if password := (passwords or {}).get(role):
            parts.append(_PROOF.format(role=role, verifier=verifier(password)))
    names = {"schemas": _literals(schemas), "roles": _literals([role_of(schema) for schema in schemas])}
    return "".join([*parts, _CHECK.format(**names), "COMMIT;\n"])


def _literals(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


async def apply(url: str, schemas: Sequence[str], passwords: Mapping[str, str] | None = None) -> None:
    """Run the script as the role of ``url``: the database's owner, with CREATEROLE or a superuser.

    Raises ``asyncpg.PostgresError``; nothing has changed then.
    """
    connection = await asyncpg.connect(driver_url(url))
    try:
        await connection.execute(script(schemas, passwords))
    finally:
        await connection.close()


def verifier(password: str) -> str:
    """Return what PostgreSQL keeps of a password (SCRAM-SHA-256, RFC 5803)."""
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, _ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    stored, kept = (_base64(part) for part in (hashlib.sha256(client_key).digest(), server_key))
    return f"SCRAM-SHA-256${_ITERATIONS}:{_base64(salt)}${stored}:{kept}"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
